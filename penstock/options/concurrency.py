"""Options of several writers on one table: locks and conflicts."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, count, positive, text, word

_WRITERS: Final = "several writers on one table"
_LOCK: Final = "hoodie.write.lock."

CONCURRENCY_MODE: Final = Option(
    "hoodie.write.concurrency.mode",
    word,
    "SINGLE_WRITER",
    "One writer at a time, or several that check for conflicts when they commit.",
    allowed=("SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL"),
    supported=("SINGLE_WRITER",),
    instead="run one writer at a time",
)
CONFLICT_RETRIES: Final = Option(
    "hoodie.write.num.retries.on.conflict.failures",
    count,
    0,
    "How often a write that lost a conflict runs again.",
    waits_for=_WRITERS,
)
AUTO_ADJUST_LOCK: Final = Option(
    "hoodie.auto.adjust.lock.configs",
    boolean,
    False,
    "Let streams choose a lock within their process.",
    accepted=True,
)
EARLY_CONFLICT_DETECTION: Final = Option(
    "hoodie.write.concurrency.early.conflict.detection.enable",
    boolean,
    False,
    "Look for conflicts while files are written, by markers.",
    supported=("false",),
    instead="leave it out",
)
EARLY_CONFLICT_STRATEGY: Final[Option[str | None]] = Option(
    "hoodie.write.concurrency.early.conflict.detection.strategy",
    word,
    None,
    "How; without it the kind of markers decides.",
    waits_for=_WRITERS,
)
EARLY_CONFLICT_CHECK_COMMITS: Final = Option(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    boolean,
    False,
    "Compare with commits completed meanwhile too.",
    waits_for=_WRITERS,
)
CONFLICT_DETECTOR_DELAY_MS: Final = Option(
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms",
    count,
    0,
    "Pause before the first look.",
    waits_for=_WRITERS,
)
CONFLICT_DETECTOR_PERIOD_MS: Final = Option(
    "hoodie.write.concurrency.async.conflict.detector.period_ms",
    positive,
    30_000,
    "Pause between looks.",
    waits_for=_WRITERS,
)
LOCK_PROVIDER: Final[Option[str | None]] = Option(
    f"{_LOCK}provider",
    word,
    None,
    "Lock that writers take while they commit. Hudi's default is the ZooKeeper one.",
    supported=(),
    instead="leave it out and run one writer at a time",
)
LOCK_CONFLICT_STRATEGY: Final[Option[str | None]] = Option(
    f"{_LOCK}conflict.resolution.strategy",
    word,
    None,
    "What counts as a conflict; without it the index decides.",
    waits_for=_WRITERS,
)
LOCK_WAIT_MS: Final = Option(
    f"{_LOCK}wait_time_ms",
    positive,
    60_000,
    "How long one attempt waits for the lock.",
    waits_for=_WRITERS,
)
LOCK_CLIENT_RETRIES: Final = Option(
    f"{_LOCK}client.num_retries",
    count,
    50,
    "Attempts after the first.",
    waits_for=_WRITERS,
)
LOCK_CLIENT_RETRY_MS: Final = Option(
    f"{_LOCK}client.wait_time_ms_between_retry",
    count,
    5000,
    "Pause between attempts.",
    waits_for=_WRITERS,
)
LOCK_RETRIES: Final = Option(
    f"{_LOCK}num_retries",
    count,
    15,
    "Retries inside the provider.",
    waits_for=_WRITERS,
)
LOCK_RETRY_MS: Final = Option(
    f"{_LOCK}wait_time_ms_between_retry",
    count,
    1000,
    "First pause between those.",
    waits_for=_WRITERS,
)
LOCK_RETRY_MS_MAX: Final = Option(
    f"{_LOCK}max_wait_time_ms_between_retry",
    count,
    16_000,
    "Longest pause between those.",
    waits_for=_WRITERS,
)
LOCK_HEARTBEAT_MS: Final = Option(
    f"{_LOCK}heartbeat_interval_ms",
    positive,
    60_000,
    "How often a held metastore lock is renewed.",
    waits_for=_WRITERS,
)
LOCK_ZOOKEEPER_URL: Final[Option[str | None]] = Option(
    f"{_LOCK}zookeeper.url",
    word,
    None,
    "ZooKeeper hosts.",
    waits_for=_WRITERS,
)
LOCK_ZOOKEEPER_PORT: Final[Option[int | None]] = Option(
    f"{_LOCK}zookeeper.port",
    positive,
    None,
    "ZooKeeper port.",
    waits_for=_WRITERS,
)
LOCK_ZOOKEEPER_BASE_PATH: Final[Option[str | None]] = Option(
    f"{_LOCK}zookeeper.base_path",
    word,
    None,
    "Node below which locks are made.",
    waits_for=_WRITERS,
)
LOCK_ZOOKEEPER_KEY: Final[Option[str | None]] = Option(
    f"{_LOCK}zookeeper.lock_key",
    word,
    None,
    "Name of the lock; without it the table's name.",
    waits_for=_WRITERS,
)
LOCK_ZOOKEEPER_SESSION_MS: Final = Option(
    f"{_LOCK}zookeeper.session_timeout_ms",
    positive,
    60_000,
    "ZooKeeper session timeout.",
    waits_for=_WRITERS,
)
LOCK_ZOOKEEPER_CONNECTION_MS: Final = Option(
    f"{_LOCK}zookeeper.connection_timeout_ms",
    positive,
    15_000,
    "ZooKeeper connection timeout.",
    waits_for=_WRITERS,
)
LOCK_METASTORE_DATABASE: Final[Option[str | None]] = Option(
    f"{_LOCK}hivemetastore.database",
    word,
    None,
    "Database of the table that is locked in the metastore.",
    waits_for=_WRITERS,
)
LOCK_METASTORE_TABLE: Final[Option[str | None]] = Option(
    f"{_LOCK}hivemetastore.table",
    word,
    None,
    "Table that is locked in the metastore.",
    waits_for=_WRITERS,
)
LOCK_METASTORE_URIS: Final[Option[str | None]] = Option(
    f"{_LOCK}hivemetastore.uris",
    word,
    None,
    "Addresses of the metastore.",
    waits_for=_WRITERS,
)
LOCK_FILESYSTEM_PATH: Final[Option[str | None]] = Option(
    f"{_LOCK}filesystem.path",
    text,
    None,
    "Folder of the lock file; without it `.hoodie` of the table.",
    waits_for=_WRITERS,
)
LOCK_FILESYSTEM_EXPIRE_MINUTES: Final = Option(
    f"{_LOCK}filesystem.expire",
    count,
    0,
    "Minutes after which a lock file counts as left behind. 0: never.",
    waits_for=_WRITERS,
)
LOCK_STORAGE_VALIDITY_SECONDS: Final = Option(
    f"{_LOCK}storage.validity.timeout.secs",
    positive,
    300,
    "Hudi 1.x: seconds a storage lock holds unless it is renewed.",
    waits_for=_WRITERS,
)
LOCK_STORAGE_RENEW_SECONDS: Final = Option(
    f"{_LOCK}storage.renew.interval.secs",
    positive,
    30,
    "Hudi 1.x: seconds between renewals.",
    waits_for=_WRITERS,
)
LOCK_DYNAMODB_TABLE: Final = Option(
    f"{_LOCK}dynamodb.table",
    word,
    "hudi_locks",
    "DynamoDB table of the locks.",
    waits_for=_WRITERS,
)
LOCK_DYNAMODB_PARTITION_KEY: Final[Option[str | None]] = Option(
    f"{_LOCK}dynamodb.partition_key",
    word,
    None,
    "Name of the lock; without it the table's name.",
    waits_for=_WRITERS,
)
LOCK_DYNAMODB_REGION: Final = Option(
    f"{_LOCK}dynamodb.region",
    word,
    "us-east-1",
    "Region of the DynamoDB table.",
    waits_for=_WRITERS,
)
LOCK_DYNAMODB_BILLING: Final = Option(
    f"{_LOCK}dynamodb.billing_mode",
    word,
    "PAY_PER_REQUEST",
    "How a DynamoDB table that is made for the locks is paid.",
    allowed=("PAY_PER_REQUEST", "PROVISIONED"),
    waits_for=_WRITERS,
)
LOCK_DYNAMODB_READ_CAPACITY: Final = Option(
    f"{_LOCK}dynamodb.read_capacity",
    positive,
    20,
    "Its read capacity when provisioned.",
    waits_for=_WRITERS,
)
LOCK_DYNAMODB_WRITE_CAPACITY: Final = Option(
    f"{_LOCK}dynamodb.write_capacity",
    positive,
    10,
    "Its write capacity when provisioned.",
    waits_for=_WRITERS,
)
LOCK_DYNAMODB_CREATION_MS: Final = Option(
    f"{_LOCK}dynamodb.table_creation_timeout",
    positive,
    120_000,
    "Milliseconds its making may take.",
    waits_for=_WRITERS,
)
LOCK_DYNAMODB_ENDPOINT: Final[Option[str | None]] = Option(
    f"{_LOCK}dynamodb.endpoint_url",
    word,
    None,
    "Address of DynamoDB, where it is not the region's.",
    waits_for=_WRITERS,
)

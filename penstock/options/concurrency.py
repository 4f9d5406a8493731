"""Options of several writers on one table: locks and conflicts."""

from __future__ import annotations

from typing import Final

from penstock.options.features import SEVERAL_WRITERS
from penstock.options.option import Option, boolean, count, positive, text, word

_LOCK: Final = "hoodie.write.lock."
_NO_LOCK: Final = "one writer at a time needs no lock, and a second one is refused while the first is at work"

CONCURRENCY_MODE: Final = Option(
    "hoodie.write.concurrency.mode",
    word,
    "SINGLE_WRITER",
    "SINGLE_WRITER: one writer at a time. Otherwise several writers, which check for conflicts when they commit.",
    allowed=("SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL"),
    supported=("SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL"),
    lacks="non-blocking concurrency control, which needs table version 8",
    instead="use OPTIMISTIC_CONCURRENCY_CONTROL",
)
CONFLICT_RETRIES: Final = Option(
    "hoodie.write.num.retries.on.conflict.failures",
    count,
    0,
    "Number of times that a write runs again after a conflict, with the rows that it has already read.",
)
AUTO_ADJUST_LOCK: Final = Option(
    "hoodie.auto.adjust.lock.configs",
    boolean,
    False,
    "Let a stream choose a lock inside of its process.",
    accepted=True,
)
EARLY_CONFLICT_DETECTION: Final = Option(
    "hoodie.write.concurrency.early.conflict.detection.enable",
    boolean,
    False,
    "Detect conflicts by markers while files are written.",
    supported=("false",),
    lacks=SEVERAL_WRITERS,
    instead="leave it out and run one writer at a time",
)
EARLY_CONFLICT_STRATEGY: Final[Option[str | None]] = Option(
    "hoodie.write.concurrency.early.conflict.detection.strategy",
    word,
    None,
    "How conflicts are detected early. If not set, the kind of markers decides.",
    waits_for=SEVERAL_WRITERS,
)
EARLY_CONFLICT_CHECK_COMMITS: Final = Option(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    boolean,
    False,
    "Also compare with commits that completed since the write began.",
    waits_for=SEVERAL_WRITERS,
)
CONFLICT_DETECTOR_DELAY_MS: Final = Option(
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms",
    count,
    0,
    "Milliseconds before the first early detection of conflicts.",
    waits_for=SEVERAL_WRITERS,
)
CONFLICT_DETECTOR_PERIOD_MS: Final = Option(
    "hoodie.write.concurrency.async.conflict.detector.period_ms",
    positive,
    30_000,
    "Milliseconds between early detections of conflicts.",
    waits_for=SEVERAL_WRITERS,
)
LOCK_PROVIDER: Final[Option[str | None]] = Option(
    f"{_LOCK}provider",
    word,
    None,
    "Lock that a writer holds while it commits. Hudi's default is the ZooKeeper lock.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_CONFLICT_STRATEGY: Final[Option[str | None]] = Option(
    f"{_LOCK}conflict.resolution.strategy",
    word,
    None,
    "What is a conflict. If not set, the index decides.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_WAIT_MS: Final = Option(
    f"{_LOCK}wait_time_ms",
    positive,
    60_000,
    "Milliseconds that one attempt waits for the lock.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_CLIENT_RETRIES: Final = Option(
    f"{_LOCK}client.num_retries",
    count,
    50,
    "Number of attempts of the writer to take the lock, after the first.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_CLIENT_RETRY_MS: Final = Option(
    f"{_LOCK}client.wait_time_ms_between_retry",
    count,
    5000,
    "Milliseconds between attempts of the writer.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_RETRIES: Final = Option(
    f"{_LOCK}num_retries",
    count,
    15,
    "Number of retries inside the lock provider.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_RETRY_MS: Final = Option(
    f"{_LOCK}wait_time_ms_between_retry",
    count,
    1000,
    "Milliseconds before the first retry of the lock provider.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_RETRY_MS_MAX: Final = Option(
    f"{_LOCK}max_wait_time_ms_between_retry",
    count,
    16_000,
    "Greatest number of milliseconds between retries of the lock provider.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_HEARTBEAT_MS: Final = Option(
    f"{_LOCK}heartbeat_interval_ms",
    positive,
    60_000,
    "Milliseconds between renewals of a metastore lock.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_ZOOKEEPER_URL: Final[Option[str | None]] = Option(
    f"{_LOCK}zookeeper.url",
    word,
    None,
    "ZooKeeper hosts.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_ZOOKEEPER_PORT: Final[Option[int | None]] = Option(
    f"{_LOCK}zookeeper.port",
    positive,
    None,
    "ZooKeeper port.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_ZOOKEEPER_BASE_PATH: Final[Option[str | None]] = Option(
    f"{_LOCK}zookeeper.base_path",
    word,
    None,
    "ZooKeeper node below which locks are created.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_ZOOKEEPER_KEY: Final[Option[str | None]] = Option(
    f"{_LOCK}zookeeper.lock_key",
    word,
    None,
    "Name of the ZooKeeper lock. If not set, the name of the table.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_ZOOKEEPER_SESSION_MS: Final = Option(
    f"{_LOCK}zookeeper.session_timeout_ms",
    positive,
    60_000,
    "Milliseconds of the ZooKeeper session timeout.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_ZOOKEEPER_CONNECTION_MS: Final = Option(
    f"{_LOCK}zookeeper.connection_timeout_ms",
    positive,
    15_000,
    "Milliseconds of the ZooKeeper connection timeout.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_METASTORE_DATABASE: Final[Option[str | None]] = Option(
    f"{_LOCK}hivemetastore.database",
    word,
    None,
    "Database of the table that is locked in the metastore.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_METASTORE_TABLE: Final[Option[str | None]] = Option(
    f"{_LOCK}hivemetastore.table",
    word,
    None,
    "Table that is locked in the metastore.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_METASTORE_URIS: Final[Option[str | None]] = Option(
    f"{_LOCK}hivemetastore.uris",
    word,
    None,
    "Addresses of the metastore.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_FILESYSTEM_PATH: Final[Option[str | None]] = Option(
    f"{_LOCK}filesystem.path",
    text,
    None,
    "Folder of the lock file. If not set, `.hoodie` of the table.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_FILESYSTEM_EXPIRE_MINUTES: Final = Option(
    f"{_LOCK}filesystem.expire",
    count,
    0,
    "Minutes after which a lock file is considered abandoned. 0: never.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_STORAGE_VALIDITY_SECONDS: Final = Option(
    f"{_LOCK}storage.validity.timeout.secs",
    positive,
    300,
    "Hudi 1.x: seconds that a storage lock holds without renewal.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_STORAGE_RENEW_SECONDS: Final = Option(
    f"{_LOCK}storage.renew.interval.secs",
    positive,
    30,
    "Hudi 1.x: seconds between renewals of a storage lock.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_DYNAMODB_TABLE: Final = Option(
    f"{_LOCK}dynamodb.table",
    word,
    "hudi_locks",
    "DynamoDB table that holds the locks.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_DYNAMODB_PARTITION_KEY: Final[Option[str | None]] = Option(
    f"{_LOCK}dynamodb.partition_key",
    word,
    None,
    "Name of the DynamoDB lock. If not set, the name of the table.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_DYNAMODB_REGION: Final = Option(
    f"{_LOCK}dynamodb.region",
    word,
    "us-east-1",
    "Region of the DynamoDB table.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_DYNAMODB_BILLING: Final = Option(
    f"{_LOCK}dynamodb.billing_mode",
    word,
    "PAY_PER_REQUEST",
    "Billing mode of a DynamoDB table that is created for the locks.",
    allowed=("PAY_PER_REQUEST", "PROVISIONED"),
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_DYNAMODB_READ_CAPACITY: Final = Option(
    f"{_LOCK}dynamodb.read_capacity",
    positive,
    20,
    "Read capacity of a provisioned DynamoDB table.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_DYNAMODB_WRITE_CAPACITY: Final = Option(
    f"{_LOCK}dynamodb.write_capacity",
    positive,
    10,
    "Write capacity of a provisioned DynamoDB table.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_DYNAMODB_CREATION_MS: Final = Option(
    f"{_LOCK}dynamodb.table_creation_timeout",
    positive,
    120_000,
    "Milliseconds that the creation of the DynamoDB table may take.",
    supported=(),
    ignored=_NO_LOCK,
)
LOCK_DYNAMODB_ENDPOINT: Final[Option[str | None]] = Option(
    f"{_LOCK}dynamodb.endpoint_url",
    word,
    None,
    "Address of DynamoDB, if it is not that of the region.",
    supported=(),
    ignored=_NO_LOCK,
)

"""Options of several writers on one table: locks and conflicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from penstock.options.option import Option, boolean, count, positive, text, word

_LOCK: Final = "hoodie.write.lock."
_NO_LOCK: Final = "one writer at a time needs no lock, and a second one is refused while the first is at work"

T = TypeVar("T")


def _lock_option(
    key: str,
    parse: Callable[[str], T],
    default: T,
    doc: str,
    *,
    allowed: tuple[str, ...] | None = None,
    aliases: tuple[str, ...] = (),
) -> Option[T]:
    """Declare an option of lock providers. The modules of `penstock.commit.locks` read it if there are several writers.

    A single writer takes no lock. If the option is set nevertheless, a warning says that it has no effect.

    Args:
        key: the key of the option without `hoodie.write.lock.`. The aliases are without this prefix too.
        parse: converts the string that a user set to a value.
        doc: the description in `docs/options.md`.
        allowed: the values that Hudi allows; None: any value that parses.
    """
    return Option(
        f"{_LOCK}{key}",
        parse,
        default,
        doc,
        allowed=allowed,
        aliases=tuple(f"{_LOCK}{alias}" for alias in aliases),
        supported=(),
        ignored=_NO_LOCK,
        used_if=("hoodie.write.concurrency.mode", "OPTIMISTIC_CONCURRENCY_CONTROL"),
    )


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
    "Detect conflicts with other writers by markers while files are written. Of two writes that change the same file group "
    "the one that began later stops. With `hoodie.write.num.retries.on.conflict.failures` it runs again when the other one is "
    "finished.",
)
EARLY_CONFLICT_STRATEGY: Final[Option[str | None]] = Option(
    "hoodie.write.concurrency.early.conflict.detection.strategy",
    word,
    None,
    "When conflicts are looked for early: a class of Hudi. `SimpleDirectMarkerBasedDetectionStrategy` and "
    "`SimpleTransactionDirectMarkerBasedDetectionStrategy`: before the first task and then every second. "
    "`AsyncTimelineServerBasedDetectionStrategy`: as the delay and period options say. If not set, the kind of markers decides.",
)
EARLY_CONFLICT_CHECK_COMMITS: Final = Option(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    boolean,
    False,
    "Early conflict detection also compares with commits that completed since the write began.",
)
CONFLICT_DETECTOR_DELAY_MS: Final = Option(
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms",
    count,
    0,
    "Milliseconds before the first early detection of conflicts. 0: before the first task. Used by the asynchronous strategy.",
)
CONFLICT_DETECTOR_PERIOD_MS: Final = Option(
    "hoodie.write.concurrency.async.conflict.detector.period_ms",
    positive,
    30_000,
    "Milliseconds between early detections of conflicts. Used by the asynchronous strategy.",
)
LOCK_PROVIDER: Final[Option[str | None]] = _lock_option(
    "provider",
    word,
    None,
    "Lock that a writer holds while it commits: a class of Hudi, or a value of `penstock.lock`. Hudi's default is the ZooKeeper "
    "lock.",
)
LOCK_CONFLICT_STRATEGY: Final[Option[str | None]] = _lock_option(
    "conflict.resolution.strategy",
    word,
    None,
    "What is a conflict, and who yields: a class of Hudi. `SimpleConcurrentFileWritesConflictResolutionStrategy` compares "
    "file groups, `BucketIndexConcurrentFileWritesConflictResolutionStrategy` also buckets, which the bucket index does anyway. "
    "With `PreferWriterConflictResolutionStrategy` table services give way to writers. If not set, the index decides.",
)
LOCK_WAIT_MS: Final = _lock_option(
    "wait_time_ms",
    positive,
    60_000,
    "Milliseconds that one attempt waits for the lock. Also the lease of a DynamoDB lock.",
)
LOCK_CLIENT_RETRIES: Final = _lock_option(
    "client.num_retries",
    count,
    50,
    "Number of attempts of the writer to take the lock, after the first.",
)
LOCK_CLIENT_RETRY_MS: Final = _lock_option(
    "client.wait_time_ms_between_retry",
    count,
    5000,
    "Milliseconds between attempts of the writer, at most: the pause is random, and at least half of it.",
)
LOCK_RETRIES: Final[Option[int | None]] = _lock_option(
    "num_retries",
    count,
    None,
    "Number of retries inside the lock provider, within one attempt of the writer. If not set, 15 for the connection to "
    "ZooKeeper or a metastore, and no limit for locks that poll.",
)
LOCK_RETRY_MS: Final[Option[int | None]] = _lock_option(
    "wait_time_ms_between_retry",
    count,
    None,
    "Milliseconds before the first retry of the lock provider. Later waits are longer. If not set, 1000 for the connection to "
    "ZooKeeper or a metastore, and 20 for locks that poll.",
)
LOCK_RETRY_MS_MAX: Final[Option[int | None]] = _lock_option(
    "max_wait_time_ms_between_retry",
    count,
    None,
    "Greatest number of milliseconds between retries of the lock provider. If not set, 16000 for the connection to ZooKeeper or "
    "a metastore, and 250 for locks that poll.",
)
LOCK_HEARTBEAT_MS: Final = _lock_option(
    "heartbeat_interval_ms",
    positive,
    60_000,
    "Milliseconds between renewals of a metastore lock.",
)
LOCK_ZOOKEEPER_URL: Final[Option[str | None]] = _lock_option(
    "zookeeper.url",
    word,
    None,
    "ZooKeeper hosts, separated by commas, each with or without port; a path at the end is the root of all nodes.",
)
LOCK_ZOOKEEPER_PORT: Final[Option[int | None]] = _lock_option(
    "zookeeper.port",
    positive,
    None,
    "Port of the ZooKeeper hosts that `hoodie.write.lock.zookeeper.url` names without port. If not set, 2181.",
)
LOCK_ZOOKEEPER_BASE_PATH: Final[Option[str | None]] = _lock_option(
    "zookeeper.base_path",
    word,
    None,
    "ZooKeeper node below which locks are created. The ZooKeeper lock needs it.",
)
LOCK_ZOOKEEPER_KEY: Final[Option[str | None]] = _lock_option(
    "zookeeper.lock_key",
    word,
    None,
    "Name of the ZooKeeper lock. If not set, the name of the table.",
)
LOCK_ZOOKEEPER_SESSION_MS: Final = _lock_option(
    "zookeeper.session_timeout_ms",
    positive,
    60_000,
    "Milliseconds after which ZooKeeper takes the lock of a dead writer away.",
)
LOCK_ZOOKEEPER_CONNECTION_MS: Final = _lock_option(
    "zookeeper.connection_timeout_ms",
    positive,
    15_000,
    "Milliseconds that ZooKeeper may take to answer.",
)
LOCK_METASTORE_DATABASE: Final[Option[str | None]] = _lock_option(
    "hivemetastore.database",
    word,
    None,
    "Database of the table that is locked in the metastore. The metastore lock needs it.",
)
LOCK_METASTORE_TABLE: Final[Option[str | None]] = _lock_option(
    "hivemetastore.table",
    word,
    None,
    "Table that is locked in the metastore. The metastore lock needs it.",
)
LOCK_METASTORE_URIS: Final[Option[str | None]] = _lock_option(
    "hivemetastore.uris",
    word,
    None,
    "Addresses of the metastore, such as `thrift://host:9083`, separated by commas. If not set, those of "
    "`hoodie.datasource.hive_sync.metastore.uris`.",
)
LOCK_FILESYSTEM_PATH: Final[Option[str | None]] = _lock_option(
    "filesystem.path",
    text,
    None,
    "Folder of the lock file. If not set, `.hoodie` of the table.",
)
LOCK_FILESYSTEM_EXPIRE_MINUTES: Final = _lock_option(
    "filesystem.expire",
    count,
    0,
    "Minutes after which the lock file of a dead writer is taken over. A living writer of Penstock renews it. 0: never, unless "
    "the writer's process has ended on this machine.",
)
LOCK_STORAGE_VALIDITY_SECONDS: Final = _lock_option(
    "storage.validity.timeout.secs",
    positive,
    300,
    "Seconds that a storage lock lasts without renewal.",
)
LOCK_STORAGE_RENEW_SECONDS: Final = _lock_option(
    "storage.renew.interval.secs",
    positive,
    30,
    "Seconds between renewals of a storage lock; at most a third of its validity.",
    aliases=("storage.heartbeat.poll.secs",),
)
LOCK_DYNAMODB_TABLE: Final = _lock_option(
    "dynamodb.table",
    word,
    "hudi_locks",
    "DynamoDB table that holds the locks.",
)
LOCK_DYNAMODB_PARTITION_KEY: Final[Option[str | None]] = _lock_option(
    "dynamodb.partition_key",
    word,
    None,
    "Name of the DynamoDB lock. If not set, the name of the table.",
)
LOCK_DYNAMODB_REGION: Final = _lock_option(
    "dynamodb.region",
    word,
    "us-east-1",
    "Region of the DynamoDB table. If not set, the environment variable AWS_REGION decides, then the default.",
)
LOCK_DYNAMODB_BILLING: Final = _lock_option(
    "dynamodb.billing_mode",
    word,
    "PAY_PER_REQUEST",
    "Billing mode of a DynamoDB table that is created for the locks.",
    allowed=("PAY_PER_REQUEST", "PROVISIONED"),
)
LOCK_DYNAMODB_READ_CAPACITY: Final = _lock_option(
    "dynamodb.read_capacity",
    positive,
    20,
    "Read capacity of a provisioned DynamoDB table.",
)
LOCK_DYNAMODB_WRITE_CAPACITY: Final = _lock_option(
    "dynamodb.write_capacity",
    positive,
    10,
    "Write capacity of a provisioned DynamoDB table.",
)
LOCK_DYNAMODB_CREATION_MS: Final = _lock_option(
    "dynamodb.table_creation_timeout",
    positive,
    120_000,
    "Milliseconds that the creation of the DynamoDB table may take.",
)
LOCK_DYNAMODB_ENDPOINT: Final[Option[str | None]] = _lock_option(
    "dynamodb.endpoint_url",
    word,
    None,
    "Address of DynamoDB, if it is not that of the region.",
)

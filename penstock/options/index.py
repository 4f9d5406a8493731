"""Options of the index: how a write finds the file group that holds a key."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, amount, boolean, count, fraction, positive, text, word, words

_RECORD: Final = "the record index"

#: Buckets of a partition. Each is a file group, and a write may touch all of them.
MOST_BUCKETS: Final = 100_000

#: Value of `hoodie.index.type` → module and class of the index. A new index needs its module and a line in this table, no more.
#: The classes are named, not imported, because options are below indexes. `penstock.index` imports a class when it is asked for.
INDEXES: Final = {
    "SIMPLE": "penstock.index.simple:SimpleIndex",
    "GLOBAL_SIMPLE": "penstock.index.simple:SimpleIndex",
    "BLOOM": "penstock.index.bloom:BloomIndex",
    "GLOBAL_BLOOM": "penstock.index.bloom:BloomIndex",
    "BUCKET": "penstock.index.bucket:BucketIndex",
    "INMEMORY": "penstock.index.in_memory:InMemoryIndex",
    "HBASE": "penstock.index.hbase:HBaseIndex",
}
#: Indexes of Hudi that Penstock does not have.
_HUDI_ONLY: Final = ("RECORD_INDEX", "FLINK_STATE")

INDEX_TYPE: Final = Option(
    "hoodie.index.type",
    word,
    "SIMPLE",
    "How known keys are found. The global kinds look in all partitions, the others in the partition of the row.",
    allowed=(*INDEXES, *(name for name in _HUDI_ONLY if name not in INDEXES)),
    supported=tuple(INDEXES),
    instead="use SIMPLE or BLOOM; instead of RECORD_INDEX use GLOBAL_BLOOM, or BUCKET where a key stays in its partition",
)
INDEX_CLASS: Final = Option(
    "hoodie.index.class",
    word,
    "",
    "Index class of one's own; wins over the type.",
    supported=("",),
    instead="set hoodie.index.type",
)
BLOOM_UPDATE_PARTITION_PATH: Final = Option(
    "hoodie.bloom.index.update.partition.path",
    boolean,
    True,
    "GLOBAL_BLOOM: a row whose partition changed moves there. With false it is updated where it is.",
)
SIMPLE_UPDATE_PARTITION_PATH: Final = Option(
    "hoodie.simple.index.update.partition.path",
    boolean,
    True,
    "GLOBAL_SIMPLE: a row whose partition changed moves there. With false it is updated where it is.",
)
BLOOM_PRUNE_BY_RANGES: Final = Option(
    "hoodie.bloom.index.prune.by.ranges",
    boolean,
    True,
    "Skip files by their least and greatest key. The rows found are the same.",
    accepted=True,
)
BLOOM_PARALLELISM: Final = Option(
    "hoodie.bloom.index.parallelism",
    count,
    0,
    "Number of tasks of the lookup.",
    accepted=True,
)
BLOOM_USE_CACHING: Final = Option(
    "hoodie.bloom.index.use.caching",
    boolean,
    True,
    "Keep the batch in Spark's cache during the lookup.",
    accepted=True,
)
BLOOM_USE_TREE: Final = Option(
    "hoodie.bloom.index.use.treebased.filter",
    boolean,
    True,
    "Search key ranges by an interval tree.",
    accepted=True,
)
BLOOM_BUCKETIZED: Final = Option(
    "hoodie.bloom.index.bucketized.checking",
    boolean,
    True,
    "Spread the lookup of one file over tasks.",
    accepted=True,
)
BLOOM_KEYS_PER_BUCKET: Final = Option(
    "hoodie.bloom.index.keys.per.bucket",
    positive,
    10_000_000,
    "Keys per task of such a lookup.",
    accepted=True,
)
BLOOM_USE_METADATA: Final = Option(
    "hoodie.bloom.index.use.metadata",
    boolean,
    False,
    "Take filters and ranges from the metadata table; Penstock reads them from the files.",
    accepted=True,
)
BLOOM_STORAGE_LEVEL: Final = Option(
    "hoodie.bloom.index.input.storage.level",
    word,
    "MEMORY_AND_DISK_SER",
    "Storage level of the cached batch.",
    accepted=True,
)
SIMPLE_PARALLELISM: Final = Option(
    "hoodie.simple.index.parallelism",
    count,
    0,
    "Number of tasks of the lookup.",
    accepted=True,
)
SIMPLE_USE_CACHING: Final = Option(
    "hoodie.simple.index.use.caching",
    boolean,
    True,
    "Keep the batch in Spark's cache during the lookup.",
    accepted=True,
)
SIMPLE_STORAGE_LEVEL: Final = Option(
    "hoodie.simple.index.input.storage.level",
    word,
    "MEMORY_AND_DISK_SER",
    "Storage level of the cached batch.",
    accepted=True,
)
GLOBAL_SIMPLE_PARALLELISM: Final = Option(
    "hoodie.global.simple.index.parallelism",
    count,
    100,
    "Number of tasks of the lookup.",
    accepted=True,
)
GLOBAL_RECONCILE_PARALLELISM: Final = Option(
    "hoodie.global.index.reconcile.parallelism",
    count,
    60,
    "Number of tasks that merge rows which change their partition.",
    accepted=True,
)
RECORD_UPDATE_PARTITION_PATH: Final = Option(
    "hoodie.record.index.update.partition.path",
    boolean,
    False,
    "A row whose partition changed moves there.",
    waits_for=_RECORD,
)
RECORD_USE_CACHING: Final = Option(
    "hoodie.record.index.use.caching",
    boolean,
    True,
    "Keep the batch in Spark's cache during the lookup.",
    accepted=True,
)
RECORD_STORAGE_LEVEL: Final = Option(
    "hoodie.record.index.input.storage.level",
    word,
    "MEMORY_AND_DISK_SER",
    "Storage level of the cached batch.",
    accepted=True,
)
BUCKET_ENGINE: Final = Option(
    "hoodie.index.bucket.engine",
    word,
    "SIMPLE",
    "A fixed number of buckets; or parts of a hash ring, which clustering splits and joins (merge-on-read only).",
    allowed=("SIMPLE", "CONSISTENT_HASHING"),
)
BUCKET_COUNT: Final = Option(
    "hoodie.bucket.index.num.buckets",
    positive,
    256,
    f"Buckets per partition, at most {MOST_BUCKETS}; must not change later.",
)
BUCKET_COUNT_MAX: Final[Option[int | None]] = Option(
    "hoodie.bucket.index.max.num.buckets",
    positive,
    None,
    "Consistent hashing: clustering splits no more buckets than make this many in a partition. Without it, or below "
    "hoodie.bucket.index.num.buckets, that number counts.",
)
BUCKET_COUNT_MIN: Final[Option[int | None]] = Option(
    "hoodie.bucket.index.min.num.buckets",
    positive,
    None,
    "Consistent hashing: clustering joins buckets as long as this many are left in a partition. Without it, or above "
    "hoodie.bucket.index.num.buckets, that number counts.",
)
BUCKET_HASH_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.bucket.index.hash.field",
    words,
    (),
    "Key columns that choose the bucket; without them the whole key does.",
)
BUCKET_SPLIT_THRESHOLD: Final = Option(
    "hoodie.bucket.index.split.threshold",
    amount,
    2.0,
    "Consistent hashing: clustering splits a bucket larger than this many maximum file sizes.",
)
BUCKET_MERGE_THRESHOLD: Final = Option(
    "hoodie.bucket.index.merge.threshold",
    amount,
    0.2,
    "Consistent hashing: clustering joins neighbours smaller than this share of the maximum file size.",
)
HBASE_QUORUM: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.zkquorum",
    word,
    None,
    "ZooKeeper hosts of HBase. Penstock asks the Thrift gateway, by default on the first of them.",
)
HBASE_PORT: Final[Option[int | None]] = Option(
    "hoodie.index.hbase.zkport",
    positive,
    None,
    "ZooKeeper port of HBase; the Thrift gateway knows it.",
    accepted=True,
)
HBASE_ZNODE: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.zknode.path",
    word,
    None,
    "Root node of HBase in ZooKeeper; the Thrift gateway knows it.",
    accepted=True,
)
HBASE_TABLE: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.table",
    word,
    None,
    "HBase table that holds the index; it must exist, with the family _s.",
)
HBASE_GET_BATCH: Final = Option(
    "hoodie.index.hbase.get.batch.size",
    positive,
    100,
    "Keys per lookup request. A task asks for at most ten times as many in a second.",
)
HBASE_PUT_BATCH: Final = Option(
    "hoodie.index.hbase.put.batch.size",
    positive,
    100,
    "Entries per update request. A task sends at most as many in a second.",
)
HBASE_PUT_BATCH_AUTO: Final = Option(
    "hoodie.index.hbase.put.batch.size.autocompute",
    boolean,
    False,
    "Derive that number from the request rate the region servers bear.",
)
HBASE_UPDATE_PARTITION_PATH: Final = Option(
    "hoodie.hbase.index.update.partition.path",
    boolean,
    False,
    "A row whose partition changed moves there, as it comes. With false it is updated where it is.",
)
HBASE_ROLLBACK_SYNC: Final = Option(
    "hoodie.index.hbase.rollback.sync",
    boolean,
    False,
    "Undo index entries when a commit is rolled back. Without it, entries of that commit are passed over.",
)
HBASE_BUCKETS: Final = Option(
    "hoodie.index.hbase.bucket.number",
    positive,
    8,
    "Prefixes that spread keys over region servers, of an index class of Hudi's that is refused here.",
    accepted=True,
)
HBASE_QPS_ALLOCATOR: Final = Option(
    "hoodie.index.hbase.qps.allocator.class",
    word,
    "org.apache.hudi.index.hbase.DefaultHBaseQPSResourceAllocator",
    "Class that grants a share of the request rate; Hudi's own grants what the fraction says, as here.",
    supported=("org.apache.hudi.index.hbase.DefaultHBaseQPSResourceAllocator",),
    instead="set hoodie.index.hbase.qps.fraction",
)
HBASE_QPS_FRACTION: Final = Option(
    "hoodie.index.hbase.qps.fraction",
    fraction,
    0.5,
    "Share of the request rate one write may use, where the put batch is derived from it.",
)
HBASE_QPS_FRACTION_MIN: Final[Option[float | None]] = Option(
    "hoodie.index.hbase.min.qps.fraction",
    fraction,
    None,
    "Least such share; for allocators of one's own.",
    accepted=True,
)
HBASE_QPS_FRACTION_MAX: Final[Option[float | None]] = Option(
    "hoodie.index.hbase.max.qps.fraction",
    fraction,
    None,
    "Greatest such share; for allocators of one's own.",
    accepted=True,
)
HBASE_QPS_PER_SERVER: Final = Option(
    "hoodie.index.hbase.max.qps.per.region.server",
    positive,
    1000,
    "Requests per second one region server bears, where the put batch is derived from it.",
)
HBASE_DYNAMIC_QPS: Final = Option(
    "hoodie.index.hbase.dynamic_qps",
    boolean,
    False,
    "Derive the share from the size of the write; for allocators of one's own.",
    accepted=True,
)
HBASE_PUT_SECONDS: Final = Option(
    "hoodie.index.hbase.desired_puts_time_in_secs",
    positive,
    600,
    "Time the updates of one write should take; for allocators of one's own.",
    accepted=True,
)
HBASE_SLEEP_PUT: Final[Option[int | None]] = Option(
    "hoodie.index.hbase.sleep.ms.for.put.batch",
    count,
    None,
    "Pause between updates; unused by Hudi too.",
    accepted=True,
)
HBASE_SLEEP_GET: Final[Option[int | None]] = Option(
    "hoodie.index.hbase.sleep.ms.for.get.batch",
    count,
    None,
    "Pause between lookups; unused by Hudi too.",
    accepted=True,
)
HBASE_QPS_ROOT: Final = Option(
    "hoodie.index.hbase.zkpath.qps_root",
    text,
    "/QPS_ROOT",
    "ZooKeeper node where shares are kept; for allocators of one's own.",
    accepted=True,
)
HBASE_SESSION_TIMEOUT: Final = Option(
    "hoodie.index.hbase.zk.session_timeout_ms",
    positive,
    60_000,
    "How long HBase may take to answer a request.",
)
HBASE_CONNECTION_TIMEOUT: Final = Option(
    "hoodie.index.hbase.zk.connection_timeout_ms",
    positive,
    15_000,
    "How long connecting to HBase may take.",
)
HBASE_AUTHENTICATION: Final = Option(
    "hoodie.index.hbase.security.authentication",
    word,
    "simple",
    "How HBase knows the writer; the Thrift gateway may log in by Kerberos for it.",
    allowed=("simple", "kerberos"),
    supported=("simple",),
    instead="let the Thrift gateway log in to HBase",
)
HBASE_KERBEROS_KEYTAB: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.kerberos.user.keytab",
    text,
    None,
    "Kerberos key table of the writer.",
    accepted=True,
)
HBASE_KERBEROS_PRINCIPAL: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.kerberos.user.principal",
    text,
    None,
    "Kerberos name of the writer.",
    accepted=True,
)
HBASE_MASTER_PRINCIPAL: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.master.kerberos.principal",
    text,
    None,
    "Kerberos name of the HBase master.",
    accepted=True,
)
HBASE_REGION_PRINCIPAL: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.regionserver.kerberos.principal",
    text,
    None,
    "Kerberos name of the region servers.",
    accepted=True,
)

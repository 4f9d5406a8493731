"""Options of the index: how a write finds the file group that holds a key."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.index_names import INDEXES
from penstock.options.option import Option, amount, boolean, count, fraction, positive, text, word, words

_RECORD: Final = "the record index"

#: Buckets of a partition. Each is a file group, and a write may touch all of them.
MOST_BUCKETS: Final = 100_000

#: Indexes of Hudi that Penstock does not have.
_HUDI_ONLY: Final = ("RECORD_INDEX", "FLINK_STATE")

INDEX_TYPE: Final = Option(
    "hoodie.index.type",
    word,
    "SIMPLE",
    "How the file groups of existing keys are found. Global indexes search all partitions, the others only the partition of "
    "the incoming row.",
    allowed=(*INDEXES, *(name for name in _HUDI_ONLY if name not in INDEXES)),
    supported=tuple(INDEXES),
    lacks="the record index",
    instead="use GLOBAL_SIMPLE or GLOBAL_BLOOM, or BUCKET where a key stays in its partition",
)
INDEX_CLASS: Final = Option(
    "hoodie.index.class",
    word,
    "",
    "Index class of your own. It has precedence over the type.",
    supported=("",),
    lacks=JAVA_CLASSES,
    instead="leave it out and set hoodie.index.type",
)
BLOOM_UPDATE_PARTITION_PATH: Final = Option(
    "hoodie.bloom.index.update.partition.path",
    boolean,
    True,
    "GLOBAL_BLOOM: a row whose partition path changed moves to the new partition. If false, it is updated in the old partition.",
)
SIMPLE_UPDATE_PARTITION_PATH: Final = Option(
    "hoodie.simple.index.update.partition.path",
    boolean,
    True,
    "GLOBAL_SIMPLE: a row whose partition path changed moves to the new partition. If false, it is updated in the old partition.",
)
BLOOM_PRUNE_BY_RANGES: Final = Option(
    "hoodie.bloom.index.prune.by.ranges",
    boolean,
    True,
    "Skip files by their least and greatest key. The result is the same either way.",
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
    "Cache the incoming rows in Spark during the lookup.",
    accepted=True,
)
BLOOM_USE_TREE: Final = Option(
    "hoodie.bloom.index.use.treebased.filter",
    boolean,
    True,
    "Search key ranges with an interval tree.",
    accepted=True,
)
BLOOM_BUCKETIZED: Final = Option(
    "hoodie.bloom.index.bucketized.checking",
    boolean,
    True,
    "Distribute the lookup in one file over several tasks.",
    accepted=True,
)
BLOOM_KEYS_PER_BUCKET: Final = Option(
    "hoodie.bloom.index.keys.per.bucket",
    positive,
    10_000_000,
    "Number of keys per task of a distributed lookup.",
    accepted=True,
)
BLOOM_USE_METADATA: Final = Option(
    "hoodie.bloom.index.use.metadata",
    boolean,
    False,
    "Read bloom filters and key ranges from the metadata table. Penstock reads them from the files.",
    accepted=True,
)
BLOOM_STORAGE_LEVEL: Final = Option(
    "hoodie.bloom.index.input.storage.level",
    word,
    "MEMORY_AND_DISK_SER",
    "Spark storage level of the cached incoming rows.",
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
    "Cache the incoming rows in Spark during the lookup.",
    accepted=True,
)
SIMPLE_STORAGE_LEVEL: Final = Option(
    "hoodie.simple.index.input.storage.level",
    word,
    "MEMORY_AND_DISK_SER",
    "Spark storage level of the cached incoming rows.",
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
    "Number of tasks that merge rows whose partition path changed.",
    accepted=True,
)
RECORD_UPDATE_PARTITION_PATH: Final = Option(
    "hoodie.record.index.update.partition.path",
    boolean,
    False,
    "RECORD_INDEX: a row whose partition path changed moves to the new partition.",
    waits_for=_RECORD,
)
RECORD_USE_CACHING: Final = Option(
    "hoodie.record.index.use.caching",
    boolean,
    True,
    "Cache the incoming rows in Spark during the lookup.",
    accepted=True,
)
RECORD_STORAGE_LEVEL: Final = Option(
    "hoodie.record.index.input.storage.level",
    word,
    "MEMORY_AND_DISK_SER",
    "Spark storage level of the cached incoming rows.",
    accepted=True,
)
BUCKET_ENGINE: Final = Option(
    "hoodie.index.bucket.engine",
    word,
    "SIMPLE",
    "SIMPLE: a fixed number of buckets. CONSISTENT_HASHING: parts of a hash ring, which clustering splits and joins; "
    "merge-on-read tables only.",
    allowed=("SIMPLE", "CONSISTENT_HASHING"),
)
BUCKET_COUNT: Final = Option(
    "hoodie.bucket.index.num.buckets",
    positive,
    256,
    f"Number of buckets per partition, at most {MOST_BUCKETS}. Cannot change after the first write.",
)
BUCKET_COUNT_MAX: Final[Option[int | None]] = Option(
    "hoodie.bucket.index.max.num.buckets",
    positive,
    None,
    "Consistent hashing: the number of buckets per partition up to which clustering splits buckets. If not set, or if less "
    "than hoodie.bucket.index.num.buckets, that option is used.",
)
BUCKET_COUNT_MIN: Final[Option[int | None]] = Option(
    "hoodie.bucket.index.min.num.buckets",
    positive,
    None,
    "Consistent hashing: the number of buckets per partition down to which clustering joins buckets. If not set, or if greater "
    "than hoodie.bucket.index.num.buckets, that option is used.",
)
BUCKET_HASH_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.bucket.index.hash.field",
    words,
    (),
    "Columns of the record key that choose the bucket. If not set, the whole key.",
)
BUCKET_SPLIT_THRESHOLD: Final = Option(
    "hoodie.bucket.index.split.threshold",
    amount,
    2.0,
    "Consistent hashing: clustering splits a bucket that is larger than this many times the target file size.",
)
BUCKET_MERGE_THRESHOLD: Final = Option(
    "hoodie.bucket.index.merge.threshold",
    amount,
    0.2,
    "Consistent hashing: clustering joins neighbouring buckets that are smaller than this fraction of the target file size.",
)
HBASE_QUORUM: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.zkquorum",
    word,
    None,
    "ZooKeeper hosts of HBase. Penstock connects to the Thrift gateway, by default on the first of these hosts.",
)
HBASE_PORT: Final[Option[int | None]] = Option(
    "hoodie.index.hbase.zkport",
    positive,
    None,
    "ZooKeeper port of HBase. The Thrift gateway has its own.",
    accepted=True,
)
HBASE_ZNODE: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.zknode.path",
    word,
    None,
    "Root node of HBase in ZooKeeper. The Thrift gateway has its own.",
    accepted=True,
)
HBASE_TABLE: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.table",
    word,
    None,
    "HBase table of the index. It must exist and have the column family _s.",
)
HBASE_GET_BATCH: Final = Option(
    "hoodie.index.hbase.get.batch.size",
    positive,
    100,
    "Number of keys per lookup request. A task looks up at most ten times as many per second.",
)
HBASE_PUT_BATCH: Final = Option(
    "hoodie.index.hbase.put.batch.size",
    positive,
    100,
    "Number of entries per update request. A task sends at most this many per second.",
)
HBASE_PUT_BATCH_AUTO: Final = Option(
    "hoodie.index.hbase.put.batch.size.autocompute",
    boolean,
    False,
    "Compute the entries per update request from the request rate of the region servers.",
)
HBASE_UPDATE_PARTITION_PATH: Final = Option(
    "hoodie.hbase.index.update.partition.path",
    boolean,
    False,
    "A row whose partition path changed moves to the new partition and replaces the old row without being merged with it. If "
    "false, it is updated in the old partition.",
)
HBASE_ROLLBACK_SYNC: Final = Option(
    "hoodie.index.hbase.rollback.sync",
    boolean,
    False,
    "Remove index entries when their commit is rolled back. If false, lookups ignore entries of commits that were rolled back.",
)
HBASE_BUCKETS: Final = Option(
    "hoodie.index.hbase.bucket.number",
    positive,
    8,
    "Number of key prefixes that distribute keys over region servers, in an index class of Hudi that Penstock refuses.",
    accepted=True,
)
HBASE_QPS_ALLOCATOR: Final = Option(
    "hoodie.index.hbase.qps.allocator.class",
    word,
    "org.apache.hudi.index.hbase.DefaultHBaseQPSResourceAllocator",
    "Class that allocates a share of the request rate. The default allocates hoodie.index.hbase.qps.fraction, as Penstock does.",
    supported=("org.apache.hudi.index.hbase.DefaultHBaseQPSResourceAllocator",),
    ignored="the share of the request rate is hoodie.index.hbase.qps.fraction, as with Hudi's default class",
)
HBASE_QPS_FRACTION: Final = Option(
    "hoodie.index.hbase.qps.fraction",
    fraction,
    0.5,
    "Share of the request rate that one write may use, if the entries per request are computed.",
)
HBASE_QPS_FRACTION_MIN: Final[Option[float | None]] = Option(
    "hoodie.index.hbase.min.qps.fraction",
    fraction,
    None,
    "Least share of the request rate. Used only by allocators of your own, which Penstock refuses.",
    accepted=True,
)
HBASE_QPS_FRACTION_MAX: Final[Option[float | None]] = Option(
    "hoodie.index.hbase.max.qps.fraction",
    fraction,
    None,
    "Greatest share of the request rate. Used only by allocators of your own, which Penstock refuses.",
    accepted=True,
)
HBASE_QPS_PER_SERVER: Final = Option(
    "hoodie.index.hbase.max.qps.per.region.server",
    positive,
    1000,
    "Requests per second that one region server handles, if the entries per request are computed.",
)
HBASE_DYNAMIC_QPS: Final = Option(
    "hoodie.index.hbase.dynamic_qps",
    boolean,
    False,
    "Compute the share of the request rate from the size of the write. Used only by allocators of your own, which Penstock "
    "refuses.",
    accepted=True,
)
HBASE_PUT_SECONDS: Final = Option(
    "hoodie.index.hbase.desired_puts_time_in_secs",
    positive,
    600,
    "Seconds that the updates of one write should take. Used only by allocators of your own, which Penstock refuses.",
    accepted=True,
)
HBASE_SLEEP_PUT: Final[Option[int | None]] = Option(
    "hoodie.index.hbase.sleep.ms.for.put.batch",
    count,
    None,
    "Milliseconds between updates. Hudi does not use it either.",
    accepted=True,
)
HBASE_SLEEP_GET: Final[Option[int | None]] = Option(
    "hoodie.index.hbase.sleep.ms.for.get.batch",
    count,
    None,
    "Milliseconds between lookups. Hudi does not use it either.",
    accepted=True,
)
HBASE_QPS_ROOT: Final = Option(
    "hoodie.index.hbase.zkpath.qps_root",
    text,
    "/QPS_ROOT",
    "ZooKeeper node that holds the allocated shares. Used only by allocators of your own, which Penstock refuses.",
    accepted=True,
)
HBASE_SESSION_TIMEOUT: Final = Option(
    "hoodie.index.hbase.zk.session_timeout_ms",
    positive,
    60_000,
    "Milliseconds that HBase may take to answer a request.",
)
HBASE_CONNECTION_TIMEOUT: Final = Option(
    "hoodie.index.hbase.zk.connection_timeout_ms",
    positive,
    15_000,
    "Milliseconds that connecting to HBase may take.",
)
HBASE_AUTHENTICATION: Final = Option(
    "hoodie.index.hbase.security.authentication",
    word,
    "simple",
    "How the writer authenticates to HBase. The Thrift gateway can log in with Kerberos on its behalf.",
    allowed=("simple", "kerberos"),
    supported=("simple",),
    refused_if=((INDEX_TYPE.key, "HBASE"),),
    lacks="Kerberos between a writer and HBase",
    instead="leave it out and let HBase's Thrift gateway log in",
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
    "Kerberos principal of the writer.",
    accepted=True,
)
HBASE_MASTER_PRINCIPAL: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.master.kerberos.principal",
    text,
    None,
    "Kerberos principal of the HBase master.",
    accepted=True,
)
HBASE_REGION_PRINCIPAL: Final[Option[str | None]] = Option(
    "hoodie.index.hbase.regionserver.kerberos.principal",
    text,
    None,
    "Kerberos principal of the region servers.",
    accepted=True,
)

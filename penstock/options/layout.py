"""Options of data files: size, compression, bloom filters."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.option import GIB, MIB, Family, Option, amount, boolean, positive, probability, whole, word

ORC_FILES: Final = Family("hoodie.orc.", "Layout of ORC base files. Penstock writes Parquet only.")
HFILE_FILES: Final = Family("hoodie.hfile.", "Layout of HFile base files. Penstock writes Parquet only.")

SMALL_FILE_LIMIT: Final = Option(
    "hoodie.parquet.small.file.limit",
    whole,
    100 * MIB,
    "Inserts fill base files that are smaller than this many bytes before they open new file groups. 0 or less turns this off.",
)
MAX_FILE_SIZE: Final = Option(
    "hoodie.parquet.max.file.size",
    positive,
    120 * MIB,
    "Target size of a base file in bytes.",
)
RECORD_SIZE_ESTIMATE: Final = Option(
    "hoodie.copyonwrite.record.size.estimate",
    positive,
    1024,
    "Assumed bytes per row, until a commit is large enough to measure them.",
)
RECORD_SIZE_ESTIMATION_THRESHOLD: Final = Option(
    "hoodie.record.size.estimation.threshold",
    amount,
    1.0,
    "A commit is large enough to measure bytes per row if it wrote more than this many times the small file limit.",
)
INSERT_AUTO_SPLIT: Final = Option(
    "hoodie.copyonwrite.insert.auto.split",
    boolean,
    True,
    "Compute the number of rows per new file from the target size and the bytes per row.",
)
INSERT_SPLIT_SIZE: Final = Option(
    "hoodie.copyonwrite.insert.split.size",
    positive,
    500_000,
    "Rows per new file if `hoodie.copyonwrite.insert.auto.split` is false.",
)
COMPRESSION_CODEC: Final = Option(
    "hoodie.parquet.compression.codec",
    word,
    "gzip",
    "Compression of base files. `snappy` and `lz4_raw` write faster; `zstd` is smaller at about the same speed.",
    allowed=("uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"),
    supported=("uncompressed", "snappy", "gzip", "zstd", "lz4_raw"),
    lacks="the Parquet codecs lzo, brotli and lz4",
)
COMPRESSION_RATIO: Final = Option(
    "hoodie.parquet.compression.ratio",
    amount,
    0.1,
    "Expected compression, by which Hudi estimates the size of a file while it is written. Penstock measures the size.",
    accepted=True,
)
BLOCK_SIZE: Final = Option(
    "hoodie.parquet.block.size",
    positive,
    120 * MIB,
    "Bytes of a Parquet row group.",
    accepted=True,
)
PAGE_SIZE: Final = Option(
    "hoodie.parquet.page.size",
    positive,
    MIB,
    "Bytes of a Parquet page.",
    accepted=True,
)
DICTIONARY_ENABLED: Final = Option(
    "hoodie.parquet.dictionary.enabled",
    boolean,
    True,
    "Encode repeated values with a dictionary. Penstock decides for each column.",
    accepted=True,
)
OUTPUT_TIMESTAMP_TYPE: Final = Option(
    "hoodie.parquet.outputtimestamptype",
    word,
    "TIMESTAMP_MICROS",
    "Parquet type of timestamps.",
    allowed=("TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"),
    supported=("TIMESTAMP_MICROS",),
    lacks="timestamps as milliseconds or INT96 in Parquet files",
    instead="leave it out to store microseconds, which all readers of Hudi tables expect",
)
WRITE_LEGACY_FORMAT: Final = Option(
    "hoodie.parquet.writelegacyformat.enabled",
    boolean,
    False,
    "Store decimals as bytes instead of integers. Penstock always does, because Hudi's Avro reader requires it.",
    accepted=True,
)
FIELD_ID_WRITE: Final = Option(
    "hoodie.parquet.field_id.write.enabled",
    boolean,
    True,
    "Store Spark's field ids in the file.",
    accepted=True,
)
FOOTER_BLOOM_FILTER: Final = Option(
    "hoodie.parquet.bloom.filter.enabled",
    boolean,
    True,
    "Store a bloom filter of the record keys in the footer of each base file. If false, only writes with a bloom index store it.",
)
BLOOM_FILTER_TYPE: Final = Option(
    "hoodie.bloom.index.filter.type",
    word,
    "DYNAMIC_V0",
    "Type of the bloom filter: SIMPLE has a fixed size, DYNAMIC_V0 grows with the rows.",
    allowed=("SIMPLE", "DYNAMIC_V0"),
)
BLOOM_NUM_ENTRIES: Final = Option(
    "hoodie.index.bloom.num_entries",
    positive,
    60_000,
    "Number of keys for which the bloom filter is sized. A dynamic filter starts with this size.",
)
BLOOM_FPP: Final = Option(
    "hoodie.index.bloom.fpp",
    probability,
    1e-9,
    "Rate of false positives of the bloom filter.",
)
BLOOM_MAX_ENTRIES: Final = Option(
    "hoodie.bloom.index.filter.dynamic.max.entries",
    positive,
    100_000,
    "Number of keys up to which a dynamic bloom filter keeps its rate of false positives.",
)
STORAGE_LAYOUT_TYPE: Final = Option(
    "hoodie.storage.layout.type",
    word,
    "DEFAULT",
    "How rows are placed in files. BUCKET needs the bucket index, which implies it.",
    allowed=("DEFAULT", "BUCKET"),
)
STORAGE_LAYOUT_PARTITIONER: Final[Option[str | None]] = Option(
    "hoodie.storage.layout.partitioner.class",
    word,
    None,
    "Class that places rows in files. The supported class needs the bucket index, which implies it.",
    supported=("org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",),
    lacks=JAVA_CLASSES,
    instead="leave it out",
    case_sensitive=True,
)
FILE_ID_PREFIX_PROVIDER: Final = Option(
    "hoodie.fileid.prefix.provider.class",
    word,
    "org.apache.hudi.table.RandomFileIdPrefixProvider",
    "Class that makes the ids of file groups.",
    supported=("org.apache.hudi.table.RandomFileIdPrefixProvider",),
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="leave it out",
)
LOG_FILE_MAX_SIZE: Final = Option(
    "hoodie.logfile.max.size",
    positive,
    GIB,
    "Bytes at which a log file is closed and a new one is begun.",
)
LOG_BLOCK_MAX_SIZE: Final = Option(
    "hoodie.logfile.data.block.max.size",
    positive,
    256 * MIB,
    "Bytes at which a block of a log file is written.",
)
LOG_BLOCK_FORMAT: Final[Option[str | None]] = Option(
    "hoodie.logfile.data.block.format",
    word,
    None,
    "Format of data blocks in log files. If not set, Avro.",
    allowed=("avro", "parquet", "hfile"),
    supported=("avro", "parquet"),
    refused_if=(("hoodie.datasource.write.table.type", "MERGE_ON_READ"),),
    lacks="log files with HFile blocks",
)
LOG_TO_PARQUET_RATIO: Final = Option(
    "hoodie.logfile.to.parquet.compression.ratio",
    amount,
    0.35,
    "Size of rows in a base file, as a fraction of their size in a log file.",
)
SMALL_FILE_CANDIDATES: Final = Option(
    "hoodie.merge.small.file.group.candidates.limit",
    whole,
    1,
    "Number of small files per partition that one write to a merge-on-read table fills.",
)

"""Options of the files a write makes: how large, how compressed, with which bloom filter."""

from __future__ import annotations

from typing import Final

from penstock.options.option import GIB, MIB, Family, Option, amount, boolean, positive, probability, whole, word

ORC_FILES: Final = Family("hoodie.orc.", "Layout of ORC base files; Penstock writes Parquet only.")
HFILE_FILES: Final = Family("hoodie.hfile.", "Layout of HFile base files; Penstock writes Parquet only.")

SMALL_FILE_LIMIT: Final = Option(
    "hoodie.parquet.small.file.limit",
    whole,
    100 * MIB,
    "Inserts fill base files smaller than this many bytes before a new file group is opened. 0 or less turns it off.",
)
MAX_FILE_SIZE: Final = Option(
    "hoodie.parquet.max.file.size",
    positive,
    120 * MIB,
    "Bytes a base file should have when it is full.",
)
RECORD_SIZE_ESTIMATE: Final = Option(
    "hoodie.copyonwrite.record.size.estimate",
    positive,
    1024,
    "Bytes per row assumed until a commit is large enough to measure.",
)
RECORD_SIZE_ESTIMATION_THRESHOLD: Final = Option(
    "hoodie.record.size.estimation.threshold",
    amount,
    1.0,
    "A commit is large enough to measure when it wrote more than this many small file limits.",
)
INSERT_AUTO_SPLIT: Final = Option(
    "hoodie.copyonwrite.insert.auto.split",
    boolean,
    True,
    "Derive the number of rows per new file from file size and row size.",
)
INSERT_SPLIT_SIZE: Final = Option(
    "hoodie.copyonwrite.insert.split.size",
    positive,
    500_000,
    "Rows per new file when they are not derived.",
)
COMPRESSION_CODEC: Final = Option(
    "hoodie.parquet.compression.codec",
    word,
    "gzip",
    "Compression of base files. `snappy` and `lz4_raw` write faster, `zstd` is smaller at about the same speed.",
    allowed=("uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"),
    supported=("uncompressed", "snappy", "gzip", "zstd", "lz4_raw"),
    instead="choose one that all Parquet readers share",
)
COMPRESSION_RATIO: Final = Option(
    "hoodie.parquet.compression.ratio",
    amount,
    0.1,
    "Room left in the size estimate of a file that is being written. Penstock measures what it wrote.",
    accepted=True,
)
BLOCK_SIZE: Final = Option(
    "hoodie.parquet.block.size",
    positive,
    120 * MIB,
    "Bytes of a row group.",
    accepted=True,
)
PAGE_SIZE: Final = Option(
    "hoodie.parquet.page.size",
    positive,
    MIB,
    "Bytes of a page.",
    accepted=True,
)
DICTIONARY_ENABLED: Final = Option(
    "hoodie.parquet.dictionary.enabled",
    boolean,
    True,
    "Encode repeated values by a dictionary.",
    accepted=True,
)
OUTPUT_TIMESTAMP_TYPE: Final = Option(
    "hoodie.parquet.outputtimestamptype",
    word,
    "TIMESTAMP_MICROS",
    "How timestamps are stored.",
    allowed=("TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"),
    supported=("TIMESTAMP_MICROS",),
    instead="leave it out; other readers need microseconds",
)
WRITE_LEGACY_FORMAT: Final = Option(
    "hoodie.parquet.writelegacyformat.enabled",
    boolean,
    False,
    "Store decimals as bytes in place of integers. Penstock always does, because Hudi's Avro reader needs it.",
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
    "Put a bloom filter of the keys into the footer of each base file. With false only a write by a bloom index does.",
)
BLOOM_FILTER_TYPE: Final = Option(
    "hoodie.bloom.index.filter.type",
    word,
    "DYNAMIC_V0",
    "Kind of that filter: of fixed size, or growing with the rows.",
    allowed=("SIMPLE", "DYNAMIC_V0"),
)
BLOOM_NUM_ENTRIES: Final = Option(
    "hoodie.index.bloom.num_entries",
    positive,
    60_000,
    "Keys the filter is made for; a growing one starts with this.",
)
BLOOM_FPP: Final = Option(
    "hoodie.index.bloom.fpp",
    probability,
    1e-9,
    "Share of false hits the filter may have.",
)
BLOOM_MAX_ENTRIES: Final = Option(
    "hoodie.bloom.index.filter.dynamic.max.entries",
    positive,
    100_000,
    "Keys up to which a growing filter keeps that share.",
)
STORAGE_LAYOUT_TYPE: Final = Option(
    "hoodie.storage.layout.type",
    word,
    "DEFAULT",
    "Placement of rows in files; BUCKET belongs to the bucket index.",
    allowed=("DEFAULT", "BUCKET"),
    supported=("DEFAULT",),
    instead="leave it out",
)
STORAGE_LAYOUT_PARTITIONER: Final[Option[str | None]] = Option(
    "hoodie.storage.layout.partitioner.class",
    word,
    None,
    "Class that places rows.",
    supported=(),
    instead="leave it out",
)
FILE_ID_PREFIX_PROVIDER: Final = Option(
    "hoodie.fileid.prefix.provider.class",
    word,
    "org.apache.hudi.table.RandomFileIdPrefixProvider",
    "Class that names file groups.",
    supported=("org.apache.hudi.table.RandomFileIdPrefixProvider",),
    instead="leave it out",
    case_sensitive=True,
)
LOG_FILE_MAX_SIZE: Final = Option(
    "hoodie.logfile.max.size",
    positive,
    GIB,
    "Bytes at which a log file is closed and the next begun.",
)
LOG_BLOCK_MAX_SIZE: Final = Option(
    "hoodie.logfile.data.block.max.size",
    positive,
    256 * MIB,
    "Bytes at which a block of a log file is written out.",
)
LOG_BLOCK_FORMAT: Final[Option[str | None]] = Option(
    "hoodie.logfile.data.block.format",
    word,
    None,
    "Format of log blocks. Without it Avro.",
    allowed=("avro", "parquet", "hfile"),
    supported=("avro", "parquet"),
    instead="leave it out; HFile blocks are the metadata table's",
)
LOG_TO_PARQUET_RATIO: Final = Option(
    "hoodie.logfile.to.parquet.compression.ratio",
    amount,
    0.35,
    "Size of rows in a base file compared with their size in a log file.",
)
SMALL_FILE_CANDIDATES: Final = Option(
    "hoodie.merge.small.file.group.candidates.limit",
    whole,
    1,
    "Small files per partition that one write to a merge-on-read table fills.",
)

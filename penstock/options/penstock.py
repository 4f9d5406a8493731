"""Options that only Penstock has, not Hudi. Penstock's own options of queries are in `read.py`."""

from __future__ import annotations

from typing import Final

from penstock.options.option import MIB, Option, amount, boolean, count, positive, text, word

SMALL_BATCH_ROWS: Final = Option(
    "penstock.small.batch.rows",
    count,
    10_000,
    "Write a batch of at most this many rows on the driver, without Spark tasks. The batch must also be within "
    "`penstock.small.batch.bytes`. 0 turns this off.",
)
SMALL_BATCH_BYTES: Final = Option(
    "penstock.small.batch.bytes",
    count,
    8 * MIB,
    "Write a batch of at most this many bytes on the driver, without Spark tasks. The batch must also be within "
    "`penstock.small.batch.rows`.",
)
DIRECT_INPUT: Final = Option(
    "penstock.direct.input",
    boolean,
    True,
    "If the incoming rows are a plain `spark.read.parquet(path)`, the workers read the files themselves, and rows do not pass "
    "through the JVM.",
)
LAST_ROW_WINS: Final = Option(
    "penstock.upsert.last.row.wins",
    boolean,
    False,
    "With `hoodie.combine.before.upsert=false`: keep only the last row of each key, also in logs and new file groups. "
    "`Table.upsert` sets it for a table without ordering column.",
)
ORDERED_DELETES: Final = Option(
    "penstock.deletes.follow.ordering",
    boolean,
    False,
    "A delete with a lesser ordering value than the stored row is ignored, also in log files. And a row with a lesser ordering "
    "value than the delete before it in a log is ignored. The first write that sets it stores it in `hoodie.properties`, and all "
    "of Penstock's readers and writers follow it from then on. Hudi does not know it and keeps its own rule.",
)
SKIP_DAMAGED_BLOCKS: Final = Option(
    "penstock.log.skip.damaged.blocks",
    boolean,
    False,
    "Queries, writes and table services skip log blocks of completed writes that are damaged, and go on without their rows and "
    "deletes. A warning counts what is lost. To find the damage, the driver reads all log files of the query, write or plan. If "
    "not set, a damaged block is an error.",
)
PROGRESS: Final = Option(
    "penstock.progress",
    word,
    "auto",
    "Show progress. `auto`: in a terminal or a notebook. `on`: always. `off`: never.",
    allowed=("auto", "on", "off"),
)
OTHER_FILES: Final = Option(
    "penstock.other.files",
    word,
    "refuse",
    "What a write does if the folder has files that are not the table's. `refuse`: a table is not created among Parquet files, "
    "and save mode `overwrite` does not delete other files; the error names them. `allow`: both happen, as in Hudi.",
    allowed=("refuse", "allow"),
)
PENSTOCK_INDEX: Final = Option(
    "penstock.index",
    word,
    "off",
    "`auto` chooses between the simple and the bloom index for every write, from the files and the batch; with a global "
    "`hoodie.index.type`, between the global ones. `BUCKET`, `HBASE` and `INMEMORY` are not replaced.",
    allowed=("off", "auto"),
)
LOCK: Final[Option[str | None]] = Option(
    "penstock.lock",
    word,
    None,
    "Lock that a writer holds while it commits: `storage`, `zookeeper`, `hive_metastore`, `dynamodb`, `filesystem`, "
    "`in_process`, or a name of your own (`@penstock.lock_provider`). Short names for `hoodie.write.lock.provider`.",
    supported=(),
    ignored="one writer at a time needs no lock, and a second one is refused while the first is at work",
    used_if=("hoodie.write.concurrency.mode", "OPTIMISTIC_CONCURRENCY_CONTROL"),
)
PAYLOAD_AGGREGATE: Final[Option[str | None]] = Option(
    "penstock.payload.aggregate",
    text,
    None,
    "How the payload `penstock.aggregate` merges columns: `<column>:<aggregate>`, separated by commas. An aggregate is sum, "
    "max, min, first, last or collect.",
)
PAYLOAD_TIMEOUT: Final = Option(
    "penstock.payload.timeout",
    amount,
    300.0,
    "Seconds that one call of a payload or merger of your own may take before the write fails. 0 turns this off.",
)
PAYLOAD_MASK_COLUMN: Final = Option(
    "penstock.payload.mask.column",
    word,
    "_changed_columns",
    "Column, a list of strings, in which rows of the payload `penstock.masked` name the columns that they supply. Null means "
    "all columns.",
)
PAYLOAD_HISTORY_COLUMN: Final = Option(
    "penstock.payload.history.column",
    word,
    "history",
    "Column, a list of structs, in which the payload `penstock.keep_history` stores earlier versions of a row.",
)
PAYLOAD_HISTORY_LIMIT: Final[Option[int | None]] = Option(
    "penstock.payload.history.limit",
    count,
    None,
    "Number of earlier versions of a row that `penstock.keep_history` stores, the latest ones. If not set, all.",
)
HBASE_THRIFT_HOST: Final[Option[str | None]] = Option(
    "penstock.hbase.thrift.host",
    word,
    None,
    "Host of HBase's Thrift gateway, which the HBase index uses. If not set, the first host of `hoodie.index.hbase.zkquorum`.",
)
HBASE_THRIFT_PORT: Final = Option(
    "penstock.hbase.thrift.port",
    positive,
    9090,
    "Port of HBase's Thrift gateway.",
)

"""Penstock's own options. `penstock.read.partition.values` is with the read options."""

from __future__ import annotations

from typing import Final

from penstock.options.option import MIB, Option, amount, boolean, count, positive, text, word

SMALL_BATCH_ROWS: Final = Option(
    "penstock.small.batch.rows",
    count,
    10_000,
    "A batch of at most this many rows is written on the driver, without Spark tasks. 0 turns it off.",
)
SMALL_BATCH_BYTES: Final = Option(
    "penstock.small.batch.bytes",
    count,
    8 * MIB,
    "The same, by bytes; both must hold.",
)
DIRECT_INPUT: Final = Option(
    "penstock.direct.input",
    boolean,
    True,
    "Incoming rows that are a plain `spark.read.parquet(path)` are read by the workers, without crossing from the JVM.",
)
PROGRESS: Final = Option(
    "penstock.progress",
    word,
    "auto",
    "Show progress in the terminal: where there is one, always, never.",
    allowed=("auto", "on", "off"),
)
PENSTOCK_INDEX: Final = Option(
    "penstock.index",
    word,
    "off",
    "`auto` chooses between the simple and the bloom index for every write, from the files and the batch; with a global "
    "`hoodie.index.type` between the global ones. `BUCKET`, `HBASE` and `INMEMORY` stay what they are.",
    allowed=("off", "auto"),
)
PAYLOAD_AGGREGATE: Final[Option[str | None]] = Option(
    "penstock.payload.aggregate",
    text,
    None,
    "What the payload `penstock.aggregate` makes of columns: `<column>:<aggregate>`, with commas between; an aggregate is sum, "
    "max, min, first, last or collect.",
)
PAYLOAD_TIMEOUT: Final = Option(
    "penstock.payload.timeout",
    amount,
    300.0,
    "Seconds that one call of a payload or merger of your own may take before the write fails. 0 turns it off.",
)
PAYLOAD_MASK_COLUMN: Final = Option(
    "penstock.payload.mask.column",
    word,
    "_changed_columns",
    "The column, a list of texts, in which rows of the payload `penstock.masked` name the columns they supply; null means all.",
)
PAYLOAD_HISTORY_COLUMN: Final = Option(
    "penstock.payload.history.column",
    word,
    "history",
    "The column, a list of structs, in which the payload `penstock.keep_history` keeps earlier versions of a row.",
)
PAYLOAD_HISTORY_LIMIT: Final[Option[int | None]] = Option(
    "penstock.payload.history.limit",
    count,
    None,
    "How many of them it keeps, the newest ones; all, if it is not set.",
)
HBASE_THRIFT_HOST: Final[Option[str | None]] = Option(
    "penstock.hbase.thrift.host",
    word,
    None,
    "Host of HBase's Thrift gateway, through which the HBase index is reached. By default the first host of the quorum.",
)
HBASE_THRIFT_PORT: Final = Option(
    "penstock.hbase.thrift.port",
    positive,
    9090,
    "Port of that gateway.",
)

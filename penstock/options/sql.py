"""Options of SQL statements on Hudi tables. DataFrame reads and writes ignore them, in Penstock as in Hudi."""

from __future__ import annotations

from typing import Final

from penstock.options.operation import Operation, spellings
from penstock.options.option import Option, boolean, text, word

_WAITS: Final = "SQL statements on Hudi tables"

SQL_INSERT_OPERATION: Final = Option(
    "hoodie.spark.sql.insert.into.operation",
    Operation,
    Operation.INSERT,
    "Operation of SQL INSERT INTO.",
    allowed=spellings(Operation.INSERT, Operation.UPSERT, Operation.BULK_INSERT),
    waits_for=_WAITS,
)
SQL_OPTIMIZED_WRITES: Final = Option(
    "hoodie.spark.sql.optimized.writes.enable",
    boolean,
    True,
    "SQL UPDATE, DELETE and MERGE use the location of the rows that they read.",
    waits_for=_WAITS,
)
SQL_INSERT_MODE: Final = Option(
    "hoodie.sql.insert.mode",
    word,
    "upsert",
    "Old switch for what SQL INSERT INTO does with keys that are already in the table.",
    allowed=("upsert", "strict", "non-strict"),
    waits_for=_WAITS,
)
SQL_BULK_INSERT: Final = Option(
    "hoodie.sql.bulk.insert.enable",
    boolean,
    False,
    "Old switch for bulk inserts in SQL.",
    waits_for=_WAITS,
)
SQL_ORIGIN_KEYGEN: Final[Option[str | None]] = Option(
    "hoodie.sql.origin.keygen.class",
    word,
    None,
    "Key generator that Hudi's SQL key generator wraps.",
    waits_for=_WAITS,
)
SQL_PARTITION_SCHEMA: Final[Option[str | None]] = Option(
    "hoodie.sql.partition.schema",
    text,
    None,
    "Internal: types of the partition columns.",
    waits_for=_WAITS,
)

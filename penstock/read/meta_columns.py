"""Meta columns on their way from workers to Spark: what Spark can put together by itself is not handed over.

Handing rows to the JVM costs by the column and by the byte, and few queries ask for meta columns. A commit time, partition
path or file name is mostly one of few that the driver knows, and workers hand over its number; a record key is often a column
of the row, and workers say so. Spark makes the column of these, if a query wants it. Any other value goes as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructField, StructType

from penstock.columns import quoted
from penstock.filegroup.meta_columns import NUMBER, SAME
from penstock.filegroup.model import FileSlice
from penstock.schema import META_COLUMNS

COMMIT_TIME, _, RECORD_KEY, PARTITION_PATH, FILE_NAME = META_COLUMNS
#: Values up to which a column is numbered: all of them are a part of Spark's plan.
_MOST_VALUES = 1_000


@dataclass(frozen=True)
class Thin:
    """How some columns are handed over. It travels to the workers."""

    #: Columns of which the number is handed over, with the values that have one.
    numbered: Mapping[str, tuple[str, ...]]
    #: The column that is the record key, where it is handed over anyway.
    key: str | None


def thinned(columns: StructType, slices: Sequence[FileSlice], times: Sequence[str], key_fields: Sequence[str]) -> Thin:
    """What is worth it of these columns.

    Args:
        times: instants that rows are likely to be of.
    """
    names = {name for one in slices for name in (one.file_id, one.base_file.name if one.base_file else one.file_id)}
    known = {COMMIT_TIME: set(times), PARTITION_PATH: {one.partition_path for one in slices}, FILE_NAME: names}
    numbered = {name: tuple(sorted(values)) for name, values in known.items() if name in columns.names}
    text = {field.name for field in columns if isinstance(field.dataType, StringType)}
    has_key = RECORD_KEY in columns.names and len(key_fields) == 1 and key_fields[0] in text
    return Thin({k: v for k, v in numbered.items() if 0 < len(v) <= _MOST_VALUES}, key_fields[0] if has_key else None)


def handed_over(columns: StructType, how: Thin) -> StructType:
    """The columns that come out of the workers."""
    more = [StructField(name + NUMBER, IntegerType()) for name in how.numbered]
    return StructType([*columns, *more, *([StructField(RECORD_KEY + SAME, BooleanType())] if how.key else [])])


def thin_rows(rows: pa.Table, how: Thin) -> pa.Table:
    """Kernel: rows as they are handed over."""
    for name, values in how.numbered.items():
        numbers = pc.index_in(rows[name], value_set=pa.array(values, rows[name].type))
        rows = _without(rows, name, pc.is_valid(numbers)).append_column(name + NUMBER, numbers)
    if how.key:
        same = pc.fill_null(pc.equal(rows[RECORD_KEY], rows[how.key]), False)
        rows = _without(rows, RECORD_KEY, same).append_column(RECORD_KEY + SAME, same)
    return rows


def _without(rows: pa.Table, name: str, known: pa.ChunkedArray) -> pa.Table:
    """A column with nothing but what is not known."""
    column, at = rows[name], rows.schema.get_field_index(name)
    nothing = pa.nulls(len(rows), column.type)  # not a scalar: pyarrow 17 puts offsets wrong there where arrays are slices
    rest = nothing if pc.all(known).as_py() else pc.if_else(known, nothing, column)
    return rows.set_column(at, rows.schema.field(name).with_nullable(True), rest)


def restored(columns: StructType, how: Thin) -> list[Column | str]:
    """The columns again, as Spark expressions over what was handed over; every call to the JVM costs, so there are few."""
    return [_restored(name, how) for name in columns.names]


def _restored(name: str, how: Thin) -> Column | str:
    itself = quoted(name)
    if name in how.numbered:
        values = F.from_json(F.lit(json.dumps(how.numbered[name])), "array<string>")
        return F.coalesce(itself, F.get(values, name + NUMBER)).alias(name)
    if name == RECORD_KEY and how.key:
        return F.expr(f"CASE WHEN {RECORD_KEY}{SAME} THEN {quoted(how.key)} ELSE {itself} END").alias(name)
    return itself

"""Meta columns on their way from workers to Spark, encoded as numbers and flags where Spark can rebuild the text.

Handing rows to the JVM costs by the column and by the byte, and few queries ask for meta columns. A commit time, partition path
or file name is mostly one of a few texts that the driver knows: workers send its number. A record key is often a column of the
row: workers send a flag. Spark rebuilds the text only if a query selects the column. Any other value is sent as it is.
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
#: Texts up to which a column is numbered: all of them become a part of Spark's plan.
_MOST_TEXTS = 1_000


@dataclass(frozen=True)
class MetaEncoding:
    """Which meta columns workers send as numbers or flags instead of strings. Pickled to the workers."""

    #: Columns that are sent as numbers, with the texts that have a number.
    numbered: Mapping[str, tuple[str, ...]]
    #: The data column that equals the record key, if it is sent anyway.
    key_column: str | None


def choose_encoding(
    columns: StructType, slices: Sequence[FileSlice], times: Sequence[str], key_fields: Sequence[str]
) -> MetaEncoding:
    """Choose how the meta columns among `columns` are sent.

    Args:
        times: instants that the rows are likely to be of.
        key_fields: the columns that the record key is made of.
    """
    file_names: set[str] = set()
    for file_slice in slices:
        file_names.add(file_slice.file_id)  # a row in a log carries the file id instead of a file name
        if file_slice.base_file:
            file_names.add(file_slice.base_file.name)
    partition_paths = {file_slice.partition_path for file_slice in slices}
    numbered: dict[str, tuple[str, ...]] = {}
    for name, texts in ((COMMIT_TIME, set(times)), (PARTITION_PATH, partition_paths), (FILE_NAME, file_names)):
        if name in columns.names and 0 < len(texts) <= _MOST_TEXTS:
            numbered[name] = tuple(sorted(texts))
    text_columns = {field.name for field in columns if isinstance(field.dataType, StringType)}
    has_key_column = RECORD_KEY in columns.names and len(key_fields) == 1 and key_fields[0] in text_columns
    return MetaEncoding(numbered, key_fields[0] if has_key_column else None)


def encoded_schema(columns: StructType, encoding: MetaEncoding) -> StructType:
    """Return the columns that workers send: all of `columns`, then the numbers and the flag."""
    numbers = [StructField(name + NUMBER, IntegerType()) for name in encoding.numbered]
    flags = [StructField(RECORD_KEY + SAME, BooleanType())] if encoding.key_column else []
    return StructType([*columns, *numbers, *flags])


def encode_rows(rows: pa.Table, encoding: MetaEncoding) -> pa.Table:
    """Return rows as they are sent: a kernel for workers."""
    for name, texts in encoding.numbered.items():
        numbers = pc.index_in(rows[name], value_set=pa.array(texts, rows[name].type))
        rows = _blank_known(rows, name, pc.is_valid(numbers)).append_column(name + NUMBER, numbers)
    if encoding.key_column:
        is_same = pc.fill_null(pc.equal(rows[RECORD_KEY], rows[encoding.key_column]), False)
        rows = _blank_known(rows, RECORD_KEY, is_same).append_column(RECORD_KEY + SAME, is_same)
    return rows


def _blank_known(rows: pa.Table, name: str, is_known: pa.ChunkedArray) -> pa.Table:
    """Return the rows with nulls in a column where its value is known from the number or flag."""
    column = rows[name]
    nulls = pa.nulls(len(rows), column.type)  # no scalar: pyarrow 17 computes wrong offsets in if_else for sliced arrays
    rest = nulls if pc.all(is_known).as_py() else pc.if_else(is_known, nulls, column)
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name).with_nullable(True), rest)


def decode_columns(columns: StructType, encoding: MetaEncoding) -> list[Column | str]:
    """Return Spark expressions that rebuild `columns` from what workers send. Each call to the JVM costs, so there are few."""
    return [_decode_column(name, encoding) for name in columns.names]


def _decode_column(name: str, encoding: MetaEncoding) -> Column | str:
    sent = quoted(name)
    if name in encoding.numbered:
        texts = F.from_json(F.lit(json.dumps(encoding.numbered[name])), "array<string>")
        return F.coalesce(sent, F.get(texts, name + NUMBER)).alias(name)
    if name == RECORD_KEY and encoding.key_column:
        return F.expr(f"CASE WHEN {RECORD_KEY}{SAME} THEN {quoted(encoding.key_column)} ELSE {sent} END").alias(name)
    return sent

"""Encodes meta columns as numbers and flags while workers send rows to Spark, which rebuilds the strings.

Sending rows to the JVM costs time per column and per byte, and few queries select meta columns. A commit time, partition path or
file name is mostly one of a few strings that the driver knows: workers send its position in a list. A record key often equals a
data column of the row: workers send a flag that says so. Spark rebuilds the string only if a query selects the column. Other
values are sent unchanged.
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
from penstock.filegroup.fill_meta_columns import NUMBER, SAME
from penstock.filegroup.model import FileSlice
from penstock.schema import META_COLUMNS

COMMIT_TIME, _, RECORD_KEY, PARTITION_PATH, FILE_NAME = META_COLUMNS
#: The most strings that a numbered column may have: all of them become part of Spark's plan.
_MOST_TEXTS = 1_000


@dataclass(frozen=True)
class MetaEncoding:
    """Which meta columns workers send as numbers or flags instead of strings. Pickled to the workers."""

    #: Meta column → the strings that are sent as numbers. The number of a string is its place in the tuple.
    numbered: Mapping[str, tuple[str, ...]]
    #: The data column that may equal the record key; None: it is not sent, or the key has several columns.
    key_column: str | None


def choose_encoding(
    columns: StructType, slices: Sequence[FileSlice], times: Sequence[str], key_fields: Sequence[str]
) -> MetaEncoding:
    """Choose which of the meta columns among `columns` workers send as numbers or flags.

    Args:
        columns: the columns that workers send.
        slices: the slices that workers read. Their partition paths and file names get numbers.
        times: the instants of the completed writes on the active timeline, which get numbers. An older commit time is sent as a
            string.
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
    """Return the schema of the rows that workers send: `columns`, then a number column per numbered meta column, then a flag.

    The flag column says whether the record key equals a data column. It is left out if `encoding.key_column` is None.
    """
    numbers = [StructField(name + NUMBER, IntegerType()) for name in encoding.numbered]
    flags = [StructField(RECORD_KEY + SAME, BooleanType())] if encoding.key_column else []
    return StructType([*columns, *numbers, *flags])


def encode_rows(rows: pa.Table, encoding: MetaEncoding) -> pa.Table:
    """Return the rows with number and flag columns appended. A string becomes null if its number or flag is sent instead.

    Runs in workers.
    """
    for name, texts in encoding.numbered.items():
        numbers = pc.index_in(rows[name], value_set=pa.array(texts, rows[name].type))
        rows = _blank_known(rows, name, pc.is_valid(numbers)).append_column(name + NUMBER, numbers)
    if encoding.key_column:
        is_same = pc.fill_null(pc.equal(rows[RECORD_KEY], rows[encoding.key_column]), False)
        rows = _blank_known(rows, RECORD_KEY, is_same).append_column(RECORD_KEY + SAME, is_same)
    return rows


def _blank_known(rows: pa.Table, name: str, is_known: pa.ChunkedArray) -> pa.Table:
    """Return the rows with column `name` set to null where `is_known` is true, because a number or flag is sent instead."""
    column = rows[name]
    nulls = pa.nulls(len(rows), column.type)  # no scalar: pyarrow 17 computes wrong offsets in if_else for sliced arrays
    rest = nulls if pc.all(is_known).as_py() else pc.if_else(is_known, nulls, column)
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name).with_nullable(True), rest)


def decode_columns(columns: StructType, encoding: MetaEncoding) -> list[Column | str]:
    """Return one Spark expression for each of `columns`. The expressions rebuild the columns from the rows that workers send.

    A column that is not encoded is returned as its plain name, because each call of a Spark function costs a call to the JVM.
    """
    return [_decode_column(name, encoding) for name in columns.names]


def _decode_column(name: str, encoding: MetaEncoding) -> Column | str:
    """Return a Spark expression that rebuilds the column `name` from the rows that workers send; `name` if it is not encoded."""
    sent = quoted(name)
    if name in encoding.numbered:
        texts = F.from_json(F.lit(json.dumps(encoding.numbered[name])), "array<string>")
        return F.coalesce(sent, F.get(texts, name + NUMBER)).alias(name)
    if name == RECORD_KEY and encoding.key_column:
        return F.expr(f"CASE WHEN {RECORD_KEY}{SAME} THEN {quoted(encoding.key_column)} ELSE {sent} END").alias(name)
    return sent

"""Converts the content of an Avro data block of a log file to an Arrow table and back.

The content is a list of records, each preceded by its length. `decode.py` decodes and `encode.py` encodes one field of all
records at once. Small blocks, and blocks whose lists differ much in length, are decoded record by record (`rows.py`), because
that is faster for them. Both decoders return the same Arrow table. Malformed bytes raise CorruptFile: every length is checked
against the end of its record, and every record must end where its length says. `docs/decisions/0008-avro-blocks-by-columns.md`
has the measurements.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptFile
from penstock.formats.avro.decode import ColumnDecoder, UnevenLists
from penstock.formats.avro.encode import encode_records
from penstock.formats.avro.layout import AvroLayout, compile_layout
from penstock.formats.avro.rows import can_read_rows, decode_rows
from penstock.formats.avro.varints import Offsets
from penstock.formats.cast import fit_to_schema
from penstock.schema import avro_to_arrow
from penstock.schema.avro import Avro, parse_avro

#: The version of the content of an Avro block, `HoodieLogBlock.version` in Hudi.
BLOCK_VERSION = 3
#: How many records are decoded or encoded at once: the arrays of offsets should stay in the processor's cache.
RECORDS_AT_ONCE = 32_768
#: With fewer records, decoding record by record is faster than by columns.
FEWEST_FOR_COLUMNS = 100

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">ii")  # version, number of records
HEAD_BYTES = _HEAD.size


def decode_avro_content(
    content: Any, schema: Avro, *, columns: Sequence[str] | None = None, read_schema: Avro | None = None
) -> pa.Table:
    """Decode the content of an Avro block to an Arrow table.

    Args:
        content: the bytes of the content.
        schema: the Avro schema that the block was written with.
        columns: the columns to decode; None: all. Other columns are skipped.
        read_schema: the Avro schema to return the records in; None: `schema`. Columns and nested fields are matched by name,
            narrower types are cast to wider ones, and columns that the block lacks are filled with their default or null.

    Raises:
        CorruptFile: the bytes are not an Avro block of the schema.
        SchemaError: a schema is not that of a record, or a stored column cannot be cast to the type of `read_schema`.
    """
    starts, ends = find_records(content)
    if read_schema is not None and columns is None:
        columns = [field["name"] for field in parse_avro(read_schema)["fields"]]
    rows = decode_records(content, starts, ends, schema, columns=columns)
    return rows if read_schema is None else resolve_schema(rows, read_schema, columns)


def encode_avro_content(rows: pa.Table, schema: Avro) -> pa.Buffer:
    """Encode the rows of an Arrow table as the content of an Avro block.

    Args:
        schema: the Avro schema to write the rows in.

    Raises:
        SchemaError: a column cannot be cast, or is missing or null where the schema does not allow null.
    """
    layout = compile_layout(schema)
    chunks = [_HEAD.pack(BLOCK_VERSION, rows.num_rows)]
    fitted = fit_to_schema(rows, layout.schema)
    for first in range(0, rows.num_rows, RECORDS_AT_ONCE):
        chunks.append(encode_records(fitted.slice(first, RECORDS_AT_ONCE), layout, with_length=True))
    return pa.py_buffer(b"".join(chunks))


def find_records(content: Any) -> tuple[Offsets, Offsets]:
    """Return (the offset at which each record begins, the offset at which it ends) in the content of an Avro block.

    Raises:
        CorruptFile: the lengths do not add up to the content, or the version is unknown.
    """
    view = memoryview(content)
    size = len(view)
    count = read_record_count(view, size)
    length_offsets = []
    offset = _HEAD.size
    unpack_length = _LENGTH.unpack_from
    try:
        # A loop over records: each length says where the next length is, which no numpy operation can follow.
        for _ in range(count):
            length_offsets.append(offset)
            offset += unpack_length(view, offset)[0] + _LENGTH.size
    except struct.error:
        raise CorruptFile(f"record {len(length_offsets)} of {count} in an Avro block begins past its end") from None
    starts = np.array([*length_offsets, offset], np.int64) + _LENGTH.size
    # A negative length leads backwards.
    if offset != size or (starts[1:] < starts[:-1] + _LENGTH.size).any():
        raise CorruptFile(f"an Avro block of {size} bytes has {count} records whose lengths do not add up to it")
    return starts[:-1], starts[1:] - _LENGTH.size


def read_record_count(head: Any, size: int) -> int:
    """Return the number of records of an Avro block.

    Args:
        head: the first bytes of the block's content.
        size: the size of the whole content in bytes.

    Raises:
        CorruptFile: the block is too small for that many records, or the version is unknown.
    """
    if size < _HEAD.size:
        raise CorruptFile(f"an Avro block of {size} bytes has no head")
    version, count = _HEAD.unpack_from(head)
    if version != BLOCK_VERSION:
        raise CorruptFile(f"an Avro block of content version {version}; known is {BLOCK_VERSION}")
    if not 0 <= count <= (size - _HEAD.size) // _LENGTH.size:
        raise CorruptFile(f"an Avro block of {size} bytes claims {count} records")
    return int(count)


def decode_records(data: Any, starts: Offsets, ends: Offsets, schema: Avro, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Decode records to an Arrow table. The records may lie anywhere in the buffer `data`, with other bytes between them.

    Args:
        starts: the byte offsets in `data` at which records begin. They ascend, and records do not overlap.
        ends: the byte offsets at which they end.
        schema: the Avro schema that the records were written with.
        columns: the columns to decode; None: all. Other columns are skipped.

    Raises:
        CorruptFile: a record is malformed or does not fit the schema.
        SchemaError: the schema is not that of a record.
    """
    layout = compile_layout(schema)
    asked = frozenset(layout.record.names if columns is None else columns)
    wanted = [name for name in layout.record.names if name in asked]
    target = pa.schema([layout.schema.field(name) for name in wanted])
    if not len(starts):
        return target.empty_table()
    buffer = pa.py_buffer(data)
    batches = []
    for first in range(0, len(starts), RECORDS_AT_ONCE):
        part = slice(first, first + RECORDS_AT_ONCE)
        batches += _decode_part(buffer, starts[part], ends[part], layout, target)
    return pa.Table.from_batches(batches, target)


def _decode_part(buffer: pa.Buffer, starts: Offsets, ends: Offsets, layout: AvroLayout, target: pa.Schema) -> list[Any]:
    """Decode records to record batches with the columns of `target`: field by field or record by record, whichever is faster.

    Args:
        starts: the byte offsets in `buffer` at which records begin.
        ends: the byte offsets at which they end.
        layout: the byte layout of the schema that the records were written with.
    """
    by_rows = can_read_rows(layout)
    if by_rows and len(starts) < FEWEST_FOR_COLUMNS:
        return decode_rows(buffer, starts, ends, layout, target).to_batches()
    base = int(starts[0])
    window = buffer.slice(base, int(ends[-1]) - base)
    decoder = ColumnDecoder(window, allow_uneven=not by_rows)
    try:
        columns = decoder.decode_columns(layout, starts - base, ends - base, target)
    except UnevenLists:
        return decode_rows(buffer, starts, ends, layout, target).to_batches()
    if not columns:
        return [_batch_without_columns(len(starts))]
    return [pa.RecordBatch.from_arrays(columns, schema=target)]


def _batch_without_columns(count: int) -> Any:
    """Return a record batch of `count` rows and no columns. `from_arrays` cannot make one, because it counts rows in columns."""
    return pa.table({"_": pa.nulls(count)}).select([]).to_batches()[0]


def resolve_schema(rows: pa.Table, read_schema: Avro, columns: Sequence[str] | None) -> pa.Table:
    """Return the rows with the columns and types of the Avro schema `read_schema`.

    A column that the rows lack is filled with its default in `read_schema`, or null.

    Args:
        columns: the columns to return; None: all of `read_schema`.
    """
    asked = None if columns is None else frozenset(columns)
    fields = [field for field in parse_avro(read_schema)["fields"] if asked is None or field["name"] in asked]
    stored = frozenset(rows.column_names)
    target = avro_to_arrow(read_schema)
    for field in fields:
        name = field["name"]
        default = field.get("default")
        if name in stored or not isinstance(default, bool | int | float | str):
            continue
        kind = target.field(name).type
        if pa.types.is_binary(kind) and isinstance(default, str):
            default = default.encode("latin-1")  # how Avro writes bytes in JSON
        rows = rows.append_column(name, pa.repeat(pa.scalar(default, kind), rows.num_rows))
    return fit_to_schema(rows, pa.schema([target.field(field["name"]) for field in fields]))

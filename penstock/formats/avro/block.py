"""Many Avro records of one schema, by columns: the content of a log's Avro blocks to an Arrow table and back.

Kernel. A block is a list of records, each preceded by its length. `avro_places` decodes a field of all records at once,
`avro_pieces` encodes so. Small blocks, and blocks with very uneven lists, are decoded record by record (`avro_rows`); both
ways give the same table. Bytes that are no records of the schema give an error: every length is checked against the end
of its record, and every record must end where its length says. `docs/decisions/0008-avro-blocks-by-columns.md` has the numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptFile
from penstock.formats.avro.decode import ColumnDecoder, Offsets, UnevenLists
from penstock.formats.avro.encode import encode_records
from penstock.formats.avro.layout import AvroLayout, compile_layout
from penstock.formats.avro.rows import can_read_rows, decode_rows
from penstock.formats.cast import fit_to_schema
from penstock.schema import avro_to_arrow
from penstock.schema.avro import Avro, parse_avro

BLOCK_VERSION = 3  # of the content of an Avro block
RECORDS_AT_ONCE = 32_768  # so that the arrays of places stay in the processor's cache
FEWEST_FOR_COLUMNS = 100  # below, going record by record is faster

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">ii")
HEAD_BYTES = _HEAD.size


def decode_avro_content(
    content: Any, schema: Avro, *, columns: Sequence[str] | None = None, read_schema: Avro | None = None
) -> pa.Table:
    """The records of an Avro block that was written with `schema`.

    `columns` leaves out all others, which costs no more than stepping over them. With `read_schema` the table has its
    columns, types and order: matched by name at every depth, wider types cast up, columns that the block does not have
    filled with their default or null.

    Raises:
        CorruptFile: the bytes are not such a block.
        SchemaError: a schema is no record's, or a stored column cannot become the type asked for.
    """
    starts, ends = find_records(content)
    if read_schema is not None and columns is None:
        columns = [field["name"] for field in parse_avro(read_schema)["fields"]]
    rows = decode_records(content, starts, ends, schema, columns=columns)
    return rows if read_schema is None else resolve_schema(rows, read_schema, columns)


def encode_avro_content(rows: pa.Table, schema: Avro) -> pa.Buffer:
    """The content of an Avro block with these rows.

    Raises:
        SchemaError: a column is missing or does not fit, or holds null where the schema has none.
    """
    layout = compile_layout(schema)
    chunks = [_HEAD.pack(BLOCK_VERSION, rows.num_rows)]
    fitted = fit_to_schema(rows, layout.schema)
    for at in range(0, rows.num_rows, RECORDS_AT_ONCE):
        chunks.append(encode_records(fitted.slice(at, RECORDS_AT_ONCE), layout, with_length=True))
    return pa.py_buffer(b"".join(chunks))


def find_records(content: Any) -> tuple[Offsets, Offsets]:
    """Where each record of an Avro block begins and ends.

    Raises:
        CorruptFile: the lengths do not add up to the content, or the version is unknown.
    """
    view = memoryview(content)
    count = read_record_count(view, len(view))
    places = []
    at, size, length_at = _HEAD.size, len(view), _LENGTH.unpack_from
    try:
        for _ in range(count):  # each length says where the next one is: the one step that cannot be taken by columns
            places.append(at)
            at += length_at(view, at)[0] + 4
    except struct.error:
        raise CorruptFile(f"record {len(places)} of {count} in an Avro block begins past its end") from None
    starts = np.array([*places, at], np.int64) + 4
    if at != size or (starts[1:] < starts[:-1] + 4).any():
        raise CorruptFile(f"an Avro block of {size} bytes has {count} records whose lengths do not add up to it")
    starts, ends = starts[:-1], starts[1:] - 4
    return starts, ends


def read_record_count(head: Any, size: int) -> int:
    """How many records an Avro block of so many bytes has, by its first bytes.

    Raises:
        CorruptFile: they cannot be that many, or the version is unknown.
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
    """The records that lie at these places of `data`, in order and without overlap.

    Raises:
        CorruptFile: a record is not one of this schema.
        SchemaError: the schema is no record's.
    """
    layout = compile_layout(schema)
    wanted = [name for name in layout.record.names if columns is None or name in columns]
    target = pa.schema([layout.schema.field(name) for name in wanted])
    if not len(starts):
        return target.empty_table()
    buffer = pa.py_buffer(data)
    parts = []
    for at in range(0, len(starts), RECORDS_AT_ONCE):
        some = slice(at, at + RECORDS_AT_ONCE)
        parts += _decode_some(buffer, starts[some], ends[some], layout, target)
    return pa.Table.from_batches(parts, target)


def _decode_some(buffer: pa.Buffer, starts: Offsets, ends: Offsets, layout: AvroLayout, target: pa.Schema) -> list[Any]:
    by_rows = can_read_rows(layout)
    if by_rows and len(starts) < FEWEST_FOR_COLUMNS:
        return decode_rows(buffer, starts, ends, layout, target).to_batches()
    base = int(starts[0])
    window = buffer.slice(base, int(ends[-1]) - base)
    try:
        columns = ColumnDecoder(window, allow_uneven=not by_rows).record(layout, starts - base, ends - base, target)
    except UnevenLists:
        return decode_rows(buffer, starts, ends, layout, target).to_batches()
    return [pa.RecordBatch.from_arrays(columns, schema=target)] if columns else _no_columns(len(starts))


def _no_columns(count: int) -> list[Any]:
    return [pa.table({"_": pa.nulls(count)}).select([]).to_batches()[0]] if count else []


def resolve_schema(rows: pa.Table, read_schema: Avro, columns: Sequence[str] | None) -> pa.Table:
    """Rows with the columns of another schema."""
    fields = [field for field in parse_avro(read_schema)["fields"] if columns is None or field["name"] in columns]
    target = avro_to_arrow(read_schema)
    for field in fields:
        default = field.get("default")
        if field["name"] not in rows.column_names and isinstance(default, bool | int | float | str):
            kind = target.field(field["name"]).type
            value = default.encode("latin-1") if pa.types.is_binary(kind) and isinstance(default, str) else default
            rows = rows.append_column(field["name"], pa.repeat(pa.scalar(value, kind), rows.num_rows))
    return fit_to_schema(rows, pa.schema([target.field(field["name"]) for field in fields]))

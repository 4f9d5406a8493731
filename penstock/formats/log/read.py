"""Reads what one block of a log file holds: rows, keys and values, or deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import CorruptFile, SchemaError, Unsupported
from penstock.formats.avro.block import RECORDS_AT_ONCE, decode_avro_content, decode_records, find_records, resolve_schema
from penstock.formats.cast import fit_to_schema
from penstock.formats.hfile import Cells, read_hfile
from penstock.formats.log.block import BlockType, LogBlock
from penstock.formats.log.deletes import Deletes, decode_deletes
from penstock.formats.log.large_block import PARQUET_RATIO, PART_BYTES, Content, avro_parts, parquet_parts
from penstock.schema import avro_to_arrow
from penstock.schema.avro import Avro, parse_avro

RECORDS_PER_PART = 4 * RECORDS_AT_ONCE

_OF_TABLE = (BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.HFILE_DATA)
_WITH_ROWS = (*_OF_TABLE, BlockType.CDC_DATA)
#: The column that HFile blocks keep beside each record, where a schema has one of this name; inside the record it is empty.
_HFILE_KEY = "key"


def open_log(log: Any) -> Any:
    """An open file over bytes; an open file as it is."""
    return log if isinstance(log, pa.NativeFile) else pa.BufferReader(log)


def read_content(log: Any, block: LogBlock) -> pa.Buffer:
    """The content of a block.

    Raises:
        CorruptFile: the file is shorter than it was.
    """
    file = open_log(log)
    file.seek(block.content_offset)
    content = file.read_buffer(block.content_size)
    if content.size != block.content_size:
        raise CorruptFile(f"{block.place}: the file ends inside its content")
    return content


def read_rows(log: Any, block: LogBlock, *, columns: Sequence[str] | None = None, read_schema: Avro | None = None) -> pa.Table:
    """The records of an Avro, Parquet, HFile or change-data block; `columns` and `read_schema` as for `decode_avro_content`.

    Raises:
        CorruptFile: the content is not what the block says.
        SchemaError: a stored column cannot become the type asked for.
        Unsupported: it is no such block.
    """
    if block.type not in _WITH_ROWS:
        raise Unsupported(f"{block.place}: a {block.type.name} block holds no rows of a table")
    content = read_content(log, block)
    with _errors_say_where(block):
        if block.type in _PARTS:
            return _whole(_PARTS[block.type], content, block.schema, columns, read_schema)
        return decode_avro_content(content, block.schema, columns=columns, read_schema=read_schema)


def read_row_parts(
    log: Any, block: LogBlock, *, read_schema: Avro, columns: Sequence[str] | None = None, part_bytes: int = PART_BYTES
) -> Iterator[pa.Table]:
    """The same rows as `read_rows` gives, part by part; large Avro and Parquet blocks are never in memory as a whole.

    Raises:
        CorruptFile, SchemaError, Unsupported: as `read_rows`.
    """
    if block.type not in _OF_TABLE:
        raise Unsupported(f"{block.place}: a {block.type.name} block holds no rows of a table")
    wanted = columns if columns is not None else [field["name"] for field in parse_avro(read_schema)["fields"]]
    is_large = block.content_size > part_bytes // (PARQUET_RATIO if block.type is BlockType.PARQUET_DATA else 1)
    if is_large and block.type in _LARGE:
        content = Content(open_log(log), block.content_offset, block.content_size)
        parts = _LARGE[block.type](content, block.schema, wanted, part_bytes)
    else:
        parts = _PARTS.get(block.type, _avro_parts)(read_content(log, block), block.schema, wanted, RECORDS_PER_PART)
    with _errors_say_where(block):
        for rows in parts:
            yield resolve_schema(rows, read_schema, wanted)


def read_cells(log: Any, block: LogBlock) -> Cells:
    """The keys and values of an HFile block; a value is an Avro record of the block's schema.

    Raises:
        CorruptFile: the content is not what the block says.
        Unsupported: it is no HFile block, or one of a kind that is not known.
    """
    if block.type is not BlockType.HFILE_DATA:
        raise Unsupported(f"{block.place}: a {block.type.name} block is no HFile")
    content = read_content(log, block)
    with _errors_say_where(block):
        return read_hfile(content)


def read_deletes(log: Any, block: LogBlock) -> Deletes:
    """The records of a delete block.

    Raises:
        CorruptFile: the content is not what the block says.
        Unsupported: the content was serialised by Java (versions 1 and 2), or it is no delete block.
    """
    if block.type is not BlockType.DELETE:
        raise Unsupported(f"{block.place}: a {block.type.name} block deletes nothing")
    content = read_content(log, block)
    with _errors_say_where(block):
        return decode_deletes(content)


@contextmanager
def _errors_say_where(block: LogBlock) -> Iterator[None]:
    """What is wrong with a block's content is told with its place."""
    try:
        yield
    except (CorruptFile, SchemaError) as cause:
        raise type(cause)(f"{block.place}: {cause}") from cause


def _avro_parts(content: pa.Buffer, schema: str, wanted: Sequence[str], records: int) -> Iterator[pa.Table]:
    starts, ends = find_records(content)
    for at in range(0, len(starts), records):
        part = slice(at, at + records)
        yield decode_records(content, starts[part], ends[part], schema, columns=wanted)


def _parquet_parts(content: pa.Buffer, schema: str, wanted: Sequence[str], records: int) -> Iterator[pa.Table]:
    kind = avro_to_arrow(schema)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        names = [name for name in kind.names if name in file.schema_arrow.names and name in wanted]
        target = pa.schema([kind.field(name) for name in names])
        for group in range(file.metadata.num_row_groups):
            yield fit_to_schema(file.read_row_group(group, columns=names, use_threads=False), target)
    except (pa.ArrowException, OSError) as cause:
        raise CorruptFile(f"not the Parquet file it should hold: {cause}") from cause


def _hfile_parts(content: pa.Buffer, schema: str, wanted: Sequence[str], records: int) -> Iterator[pa.Table]:
    cells = read_hfile(content)
    for at in range(0, len(cells.value_starts), records):
        part = slice(at, at + records)
        rows = decode_records(cells.data, cells.value_starts[part], cells.value_ends[part], schema, columns=wanted)
        yield _with_hfile_keys(rows, cells.keys()[part]) if _HFILE_KEY in rows.column_names else rows


def _with_hfile_keys(rows: pa.Table, keys: Sequence[bytes]) -> pa.Table:
    """The rows, with the keys of their cells where the column that holds these is empty."""
    at, kind = rows.column_names.index(_HFILE_KEY), rows.schema.field(_HFILE_KEY)
    if not pa.types.is_string(kind.type):
        return rows
    texts = pa.array(keys, pa.binary()).cast(pa.string())
    return rows.set_column(at, kind, pc.if_else(pc.equal(rows[_HFILE_KEY], ""), texts, rows[_HFILE_KEY]))


_PARTS: Mapping[BlockType, Callable[[pa.Buffer, str, Sequence[str], int], Iterator[pa.Table]]] = {
    BlockType.PARQUET_DATA: _parquet_parts,
    BlockType.HFILE_DATA: _hfile_parts,
}
_LARGE = {BlockType.AVRO_DATA: avro_parts, BlockType.PARQUET_DATA: parquet_parts}


def _whole(
    read_parts: Callable[[pa.Buffer, str, Sequence[str], int], Iterator[pa.Table]],
    content: pa.Buffer,
    schema: str,
    columns: Sequence[str] | None,
    read_schema: Avro | None,
) -> pa.Table:
    kind = avro_to_arrow(schema)
    wanted = columns if columns is not None else avro_to_arrow(read_schema).names if read_schema is not None else kind.names
    parts = list(read_parts(content, schema, wanted, RECORDS_PER_PART))
    names = [name for name in kind.names if name in wanted]
    rows = pa.concat_tables(parts) if parts else pa.schema([kind.field(name) for name in names]).empty_table()
    return rows if read_schema is None else resolve_schema(rows, read_schema, columns)

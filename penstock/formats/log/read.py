"""Reads the content of one block of a log file: rows, the cells of an HFile, or deletes."""

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
from penstock.formats.log.large_block import PARQUET_RATIO, PART_BYTES, Content, read_avro_parts, read_parquet_parts
from penstock.schema import avro_to_arrow
from penstock.schema.avro import Avro, parse_avro

RECORDS_PER_PART = 4 * RECORDS_AT_ONCE

_TABLE_ROWS = (BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.HFILE_DATA)
_ROWS = (*_TABLE_ROWS, BlockType.CDC_DATA)
#: In the records of HFile blocks, Hudi leaves the column of this name empty. Its value is the key of the HFile cell.
_HFILE_KEY = "key"


def open_log(log: Any) -> Any:
    """Return an open file for a log: `log` itself if it is an open file, otherwise a reader over the bytes `log`."""
    return log if isinstance(log, pa.NativeFile) else pa.BufferReader(log)


def read_content(log: Any, block: LogBlock) -> pa.Buffer:
    """Read the content of a block, as bytes.

    Args:
        log: an open log file, or its bytes.

    Raises:
        CorruptFile: the file ends inside the content.
    """
    file = open_log(log)
    file.seek(block.content_offset)
    content = file.read_buffer(block.content_size)
    if content.size != block.content_size:
        raise CorruptFile(f"{block.place}: the file ends inside its content")
    return content


def read_rows(log: Any, block: LogBlock, *, columns: Sequence[str] | None = None, read_schema: Avro | None = None) -> pa.Table:
    """Read all rows of an Avro, Parquet, HFile or CDC block.

    Args:
        log: an open log file, or its bytes.
        columns: the columns to read; None: all. Other columns are skipped.
        read_schema: the Avro schema to return the rows in; None: the schema of the block.

    Raises:
        CorruptFile: the content is malformed.
        SchemaError: a stored column cannot be cast to the type of `read_schema`.
        Unsupported: the block holds no rows.
    """
    if block.type not in _ROWS:
        raise Unsupported(f"{block.place}: a {block.type.name} block holds no rows of a table")
    content = read_content(log, block)
    with _place_in_errors(block):
        if block.type in _READERS:
            return _read_all_parts(_READERS[block.type], content, block.schema, columns, read_schema)
        return decode_avro_content(content, block.schema, columns=columns, read_schema=read_schema)


def read_row_parts(
    log: Any, block: LogBlock, *, read_schema: Avro, columns: Sequence[str] | None = None, part_bytes: int = PART_BYTES
) -> Iterator[pa.Table]:
    """Yield the rows of an Avro, Parquet or HFile block in parts. A large Avro or Parquet block is never in memory as a whole.

    Args:
        log: an open log file, or its bytes.
        read_schema: the Avro schema to return the rows in.
        columns: the columns to read; None: all of `read_schema`.
        part_bytes: the approximate size of a part of a large block.

    Raises:
        CorruptFile: the content is malformed.
        SchemaError: a stored column cannot be cast to the type of `read_schema`.
        Unsupported: the block holds no rows of the table.
    """
    if block.type not in _TABLE_ROWS:
        raise Unsupported(f"{block.place}: a {block.type.name} block holds no rows of a table")
    wanted = columns if columns is not None else [field["name"] for field in parse_avro(read_schema)["fields"]]
    expansion = PARQUET_RATIO if block.type is BlockType.PARQUET_DATA else 1
    is_large = block.content_size > part_bytes // expansion
    if is_large and block.type in _LARGE_BLOCK_READERS:
        content = Content(open_log(log), block.content_offset, block.content_size)
        parts = _LARGE_BLOCK_READERS[block.type](content, block.schema, wanted, part_bytes)
    else:
        read_parts = _READERS.get(block.type, _read_avro)
        parts = read_parts(read_content(log, block), block.schema, wanted)
    with _place_in_errors(block):
        for rows in parts:
            yield resolve_schema(rows, read_schema, wanted)


def read_cells(log: Any, block: LogBlock) -> Cells:
    """Read the keys and values of an HFile block. Each value is an Avro record of the block's schema.

    Args:
        log: an open log file, or its bytes.

    Raises:
        CorruptFile: the content is malformed.
        Unsupported: the block is not an HFile block, or the HFile has an unknown version or compression.
    """
    if block.type is not BlockType.HFILE_DATA:
        raise Unsupported(f"{block.place}: a {block.type.name} block is no HFile")
    content = read_content(log, block)
    with _place_in_errors(block):
        return read_hfile(content)


def read_deletes(log: Any, block: LogBlock) -> Deletes:
    """Read the deleted keys of a delete block, with their ordering values.

    Args:
        log: an open log file, or its bytes.

    Raises:
        CorruptFile: the content is malformed.
        Unsupported: the block is not a delete block, or its content was serialised by Java (versions 1 and 2).
    """
    if block.type is not BlockType.DELETE:
        raise Unsupported(f"{block.place}: a {block.type.name} block deletes nothing")
    content = read_content(log, block)
    with _place_in_errors(block):
        return decode_deletes(content)


@contextmanager
def _place_in_errors(block: LogBlock) -> Iterator[None]:
    """Add the file name and offset of the block to each CorruptFile and SchemaError raised inside the `with` block."""
    try:
        yield
    except (CorruptFile, SchemaError) as cause:
        raise type(cause)(f"{block.place}: {cause}") from cause


def _read_avro(content: pa.Buffer, schema: str, wanted: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of an Avro block in parts. `schema` is the block's Avro schema, `wanted` the columns to decode."""
    starts, ends = find_records(content)
    for first in range(0, len(starts), RECORDS_PER_PART):
        part = slice(first, first + RECORDS_PER_PART)
        yield decode_records(content, starts[part], ends[part], schema, columns=wanted)


def _read_parquet(content: pa.Buffer, schema: str, wanted: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet block, one table per row group.

    Args:
        schema: the Avro schema of the block, as JSON.
        wanted: the columns to read.
    """
    arrow_schema = avro_to_arrow(schema)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        stored = frozenset(file.schema_arrow.names)
        names = [name for name in arrow_schema.names if name in stored and name in wanted]
        target = pa.schema([arrow_schema.field(name) for name in names])
        for group in range(file.metadata.num_row_groups):
            yield fit_to_schema(file.read_row_group(group, columns=names, use_threads=False), target)
    except (pa.ArrowException, OSError) as cause:
        raise CorruptFile(f"not the Parquet file it should hold: {cause}") from cause


def _read_hfile(content: pa.Buffer, schema: str, wanted: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of an HFile block in parts. `schema` is the block's Avro schema, `wanted` the columns to decode."""
    cells = read_hfile(content)
    keys = cells.keys() if _HFILE_KEY in wanted else []
    for first in range(0, len(cells.value_starts), RECORDS_PER_PART):
        part = slice(first, first + RECORDS_PER_PART)
        rows = decode_records(cells.data, cells.value_starts[part], cells.value_ends[part], schema, columns=wanted)
        yield _fill_hfile_keys(rows, keys[part]) if _HFILE_KEY in rows.column_names else rows


def _fill_hfile_keys(rows: pa.Table, keys: Sequence[bytes]) -> pa.Table:
    """Return the rows with the column `key` filled from the keys of their HFile cells, because Hudi leaves the column empty.

    Only empty strings are replaced.

    Args:
        keys: the key of each row's HFile cell.
    """
    number = rows.column_names.index(_HFILE_KEY)
    field = rows.schema.field(_HFILE_KEY)
    if not pa.types.is_string(field.type):
        return rows
    texts = pa.array(keys, pa.binary()).cast(pa.string())
    stored = rows[_HFILE_KEY]
    return rows.set_column(number, field, pc.if_else(pc.equal(stored, ""), texts, stored))


#: A function that yields the rows of a content, given its Avro schema and the wanted columns.
_Reader = Callable[[pa.Buffer, str, Sequence[str]], Iterator[pa.Table]]
#: The readers of block types whose content is not Avro.
_READERS: Mapping[BlockType, _Reader] = {
    BlockType.PARQUET_DATA: _read_parquet,
    BlockType.HFILE_DATA: _read_hfile,
}
_LARGE_BLOCK_READERS = {BlockType.AVRO_DATA: read_avro_parts, BlockType.PARQUET_DATA: read_parquet_parts}


def _read_all_parts(
    read_parts: _Reader, content: pa.Buffer, schema: str, columns: Sequence[str] | None, read_schema: Avro | None
) -> pa.Table:
    """Return all rows of a Parquet or HFile block as one table.

    Args:
        read_parts: the function that yields the rows of a content of this block type in parts.
        schema: the Avro schema of the block, as JSON.
        columns: the columns to read; None: all.
        read_schema: the Avro schema to return the rows in; None: the schema of the block.
    """
    arrow_schema = avro_to_arrow(schema)
    if columns is not None:
        wanted = columns
    elif read_schema is not None:
        wanted = avro_to_arrow(read_schema).names
    else:
        wanted = arrow_schema.names
    parts = list(read_parts(content, schema, wanted))
    if parts:
        rows = pa.concat_tables(parts)
    else:
        rows = pa.schema([field for field in arrow_schema if field.name in wanted]).empty_table()
    return rows if read_schema is None else resolve_schema(rows, read_schema, columns)

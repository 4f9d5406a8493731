"""Log files: the blocks that changes of a file group are appended in. Bytes in, blocks out, and back.

Kernel: an open file in (`pyarrow.NativeFile`, or anything with bytes), blocks out; nothing here knows paths or timelines.
A block, all numbers big end first::

    6  magic #HUDI#
    8  size of the block behind this field
    4  log format version      4  type
    …  header map              8  length of the content    …  content    …  footer map
    8  size from the magic to here: leads back to the block's beginning, and tells whether the block is whole

`scan_blocks` reads everything but the contents, so that a log costs little memory whatever its size; `read_content` and
`read_rows` read one block. A block that is torn or whose sizes disagree becomes one of type CORRUPT, which reaches to the
next magic, and reading goes on there; that is what Hudi skips. What is whole but cannot be understood is an error with
the file's name and the byte. No size that a file claims is believed before it was held against the file's own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import CorruptFile, SchemaError, Unsupported
from penstock.formats.avro_columns import (
    RECORDS_AT_ONCE,
    decode_block,
    decode_records,
    encode_block,
    record_places,
    resolved,
)
from penstock.formats.delete_records import Deletes, decode_deletes, encode_deletes
from penstock.formats.fit import fit
from penstock.formats.hfile import Cells, read_hfile
from penstock.formats.large_blocks import PARQUET_RATIO, PART_BYTES, Content, avro_parts, parquet_parts
from penstock.formats.parquet import open_writer
from penstock.formats.positions import Positions, decode_positions, encode_positions
from penstock.schema import arrow_of_avro, avro_text
from penstock.schema.avro import Avro, record_of

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1


class BlockType(int, Enum):
    """What a block holds, by the number it has on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(int, Enum):
    """What a block says about itself, by the number it has on disk."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


ROLLBACK = "0"  # the only command

_DATA = (BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA, BlockType.CDC_DATA)
_OF_TABLE = (BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.HFILE_DATA)
_WITH_ROWS = (*_OF_TABLE, BlockType.CDC_DATA)
#: The column that HFile blocks keep beside each record, where a schema has one of this name; inside the record it is empty.
_HFILE_KEY = "key"
_FRONT = struct.Struct(">6sq")  # magic, size
_KIND = struct.Struct(">ii")  # version, type
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_LEAST_SIZE = _KIND.size + _INT.size + _LONG.size + _INT.size + _LONG.size  # both maps and the content empty
_MOST_SIZE = 2**31 - 1  # Java reads sizes as ints
_HEADER_WINDOW = 64 * 1024
_SEARCH_WINDOW = 1024 * 1024
RECORDS_OF_A_PART = 4 * RECORDS_AT_ONCE


@dataclass(frozen=True)
class LogBlock:
    """One block of a log file, without its content. Keys that are not known yet keep their number."""

    type: BlockType
    offset: int  # of its magic
    size: int  # of all of it, magic and trailing size included
    header: Mapping[int, str] = field(default_factory=dict)
    footer: Mapping[int, str] = field(default_factory=dict)
    content_offset: int = 0
    content_size: int = 0
    version: int = FORMAT_VERSION
    file_name: str = ""

    @property
    def is_data(self) -> bool:
        return self.type in _DATA

    @property
    def instant(self) -> str:
        """The instant of the commit that wrote it; of a rollback, the rollback's own."""
        return self._header(HeaderKey.INSTANT_TIME)

    @property
    def target_instant(self) -> str:
        """Of a rollback: the instant whose blocks before this one do not count."""
        return self._header(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str:
        """The Avro schema of its records, meta columns included."""
        return self._header(HeaderKey.SCHEMA)

    @property
    def compacted_instants(self) -> tuple[str, ...]:
        """Of a block that log compaction wrote: the instants whose blocks it stands for."""
        return tuple(filter(None, self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES, "").split(",")))

    @property
    def positions(self) -> Positions | None:
        """Where in the base file the rows of its records stand, ascending; None if it does not say. Raises CorruptFile."""
        text = self.header.get(HeaderKey.RECORD_POSITIONS)
        try:
            return None if text is None else decode_positions(text)
        except CorruptFile as cause:
            raise CorruptFile(f"{self.place}: {cause}") from cause

    @property
    def is_rollback(self) -> bool:
        return self.type is BlockType.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK

    @property
    def place(self) -> str:
        """Where it stands, for a message."""
        return f"log file {self.file_name or '(unnamed)'}, block at byte {self.offset}"

    def _header(self, key: HeaderKey) -> str:
        if key not in self.header:
            raise CorruptFile(f"{self.place}: a {self.type.name} block without {key.name}")
        return self.header[key]


def scan_blocks(log: Any, *, file_name: str = "") -> Iterator[LogBlock]:
    """The blocks of a log file, in order, without their contents.

    Raises:
        CorruptFile: the file does not begin with a block, or a block is whole but its inside makes no sense.
        Unsupported: a block of a log format that is not known.
    """
    file = open_log(log)
    end, at = file.size(), 0
    while at < end:
        if end - at >= len(MAGIC) and _read(file, at, len(MAGIC)) != MAGIC:  # only at the beginning: all else was looked for
            raise CorruptFile(f"log file {file_name or '(unnamed)'}, byte {at}: there is no block")
        block = _block_at(file, at, end, file_name)
        yield block
        at += block.size


def scan_blocks_backwards(log: Any, *, file_name: str = "") -> Iterator[LogBlock]:
    """The blocks of a log file, last first, found by the sizes at their ends.

    Raises:
        CorruptFile: as `scan_blocks`; also where a size does not lead to a block: corrupt blocks cannot be passed backwards.
        Unsupported: as `scan_blocks`.
    """
    file = open_log(log)
    at = file.size()
    while at > 0:
        size = _LONG.unpack(_read(file, at - _LONG.size, _LONG.size))[0] + _LONG.size if at >= _LONG.size else -1
        block = _block_at(file, at - size, at, file_name) if 0 < size <= at else None
        if block is None or block.type is BlockType.CORRUPT:
            raise CorruptFile(f"log file {file_name or '(unnamed)'}: no whole block ends at byte {at}; read it forwards")
        yield block
        at = block.offset


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
    """The records of an Avro, Parquet, HFile or change-data block; `columns` and `read_schema` as for `decode_block`.

    Raises:
        CorruptFile: the content is not what the block says.
        SchemaError: a stored column cannot become the type asked for.
        Unsupported: it is no such block.
    """
    if block.type not in _WITH_ROWS:
        raise Unsupported(f"{block.place}: a {block.type.name} block holds no rows of a table")
    content = read_content(log, block)
    try:
        if block.type in _PARTS:
            return _whole(_PARTS[block.type], content, block.schema, columns, read_schema)
        return decode_block(content, block.schema, columns=columns, read_schema=read_schema)
    except CorruptFile as cause:
        raise CorruptFile(f"{block.place}: {cause}") from cause
    except SchemaError as cause:
        raise SchemaError(f"{block.place}: {cause}") from cause


def read_row_parts(
    log: Any, block: LogBlock, *, read_schema: Avro, columns: Sequence[str] | None = None, part_bytes: int = PART_BYTES
) -> Iterator[pa.Table]:
    """The same rows as `read_rows` gives, part by part; large Avro and Parquet blocks are never in memory as a whole.

    Raises:
        CorruptFile, SchemaError, Unsupported: as `read_rows`.
    """
    if block.type not in _OF_TABLE:
        raise Unsupported(f"{block.place}: a {block.type.name} block holds no rows of a table")
    wanted = columns if columns is not None else [field["name"] for field in record_of(read_schema)["fields"]]
    is_large = block.content_size > part_bytes // (PARQUET_RATIO if block.type is BlockType.PARQUET_DATA else 1)
    if is_large and block.type in _LARGE:
        content = Content(open_log(log), block.content_offset, block.content_size)
        parts = _LARGE[block.type](content, block.schema, wanted, part_bytes)
    else:
        parts = _PARTS.get(block.type, _avro_parts)(read_content(log, block), block.schema, wanted, RECORDS_OF_A_PART)
    try:
        for rows in parts:
            yield resolved(rows, read_schema, wanted)
    except CorruptFile as cause:
        raise CorruptFile(f"{block.place}: {cause}") from cause
    except SchemaError as cause:
        raise SchemaError(f"{block.place}: {cause}") from cause


def read_cells(log: Any, block: LogBlock) -> Cells:
    """The keys and values of an HFile block; a value is an Avro record of the block's schema.

    Raises:
        CorruptFile: the content is not what the block says.
        Unsupported: it is no HFile block, or one of a kind that is not known.
    """
    if block.type is not BlockType.HFILE_DATA:
        raise Unsupported(f"{block.place}: a {block.type.name} block is no HFile")
    try:
        return read_hfile(read_content(log, block))
    except CorruptFile as cause:
        raise CorruptFile(f"{block.place}: {cause}") from cause


def read_deletes(log: Any, block: LogBlock) -> Deletes:
    """The records of a delete block.

    Raises:
        CorruptFile: the content is not what the block says.
        Unsupported: the content was serialised by Java (versions 1 and 2), or it is no delete block.
    """
    if block.type is not BlockType.DELETE:
        raise Unsupported(f"{block.place}: a {block.type.name} block deletes nothing")
    try:
        return decode_deletes(read_content(log, block))
    except CorruptFile as cause:
        raise CorruptFile(f"{block.place}: {cause}") from cause


def avro_block(rows: pa.Table, *, instant: str, schema: Avro, positions: Positions | None = None) -> bytes:
    """A block of rows as Avro records. `schema` has the meta columns, as `rows` have.

    Args:
        positions: where in the base file the row of each key stands, if that is known of all.

    Raises:
        SchemaError: the rows do not fit the schema.
    """
    return write_block(BlockType.AVRO_DATA, _headers(instant, schema, positions), encode_block(rows, schema))


def parquet_block(
    rows: pa.Table, *, instant: str, schema: Avro, codec: str = "gzip", positions: Positions | None = None
) -> bytes:
    """A block of rows as a Parquet file. `schema` has the meta columns, as `rows` have; `positions` as of an Avro block.

    Raises:
        SchemaError: the rows do not fit the schema.
    """
    fitted = fit(rows, arrow_of_avro(schema))
    sink = pa.BufferOutputStream()
    with open_writer(sink, fitted, codec) as writer:
        writer.write_table(fitted)
        writer.add_key_value_metadata({"parquet.avro.schema": _text(schema), "writer.model.name": "avro"})
    return write_block(BlockType.PARQUET_DATA, _headers(instant, schema, positions), sink.getvalue())


def delete_block(deletes: Deletes, *, instant: str, schema: Avro, positions: Positions | None = None) -> bytes:
    """A block of deleted keys; `positions` as of an Avro block."""
    return write_block(BlockType.DELETE, _headers(instant, schema, positions), encode_deletes(deletes))


def rollback_block(*, instant: str, target_instant: str) -> bytes:
    """A block that takes back all blocks of `target_instant` before it."""
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK,
        HeaderKey.TARGET_INSTANT_TIME: target_instant,
    }
    return write_block(BlockType.COMMAND, header, b"")


def write_block(
    kind: BlockType, header: Mapping[HeaderKey, str], content: Any, footer: Mapping[HeaderKey, str] | None = None
) -> bytes:
    """A whole block.

    Raises:
        SchemaError: it is larger than any reader takes.
    """
    body = b"".join(
        [
            _KIND.pack(FORMAT_VERSION, kind),
            _map_bytes(header),
            _LONG.pack(memoryview(content).nbytes),
            content,
            _map_bytes(footer or {}),
        ]
    )
    size = len(body) + _LONG.size
    if size > _MOST_SIZE:
        raise SchemaError(f"a log block of {size} bytes; readers take less than 2 GiB: lower hoodie.logfile.data.block.max.size")
    return b"".join([_FRONT.pack(MAGIC, size), body, _LONG.pack(size + len(MAGIC))])


def _block_at(file: Any, at: int, end: int, file_name: str) -> LogBlock:
    size = _whole_size(file, at, end)
    if size is None:
        return LogBlock(BlockType.CORRUPT, at, _next_magic(file, min(at + len(MAGIC), end), end) - at, file_name=file_name)
    return _parsed(file, at, size, file_name)


def _whole_size(file: Any, at: int, end: int) -> int | None:
    """How many bytes the block takes, if both its sizes agree and the next block or the end of the file is behind it."""
    if end - at < _FRONT.size + _LEAST_SIZE:
        return None
    magic, size = _FRONT.unpack(_read(file, at, _FRONT.size))
    behind = at + _FRONT.size + size
    if magic != MAGIC or size < _LEAST_SIZE or behind > end:
        return None
    trailing = _read(file, behind - _LONG.size, _LONG.size + len(MAGIC))
    if _LONG.unpack_from(trailing)[0] != size + len(MAGIC):
        return None
    follower = trailing[_LONG.size :]
    # Fewer bytes than a magic are the torn beginning of another block, or, backwards, the limit that was set.
    return behind - at if behind == end or follower == MAGIC or end - behind < len(MAGIC) else None


def _next_magic(file: Any, at: int, end: int) -> int:
    """Where the next magic begins; the end of the file if there is none."""
    while at < end:
        window = _read(file, at, min(_SEARCH_WINDOW, end - at))
        found = window.find(MAGIC)
        if found >= 0:
            return at + found
        if len(window) < len(MAGIC):
            return end
        at += len(window) - len(MAGIC) + 1
    return end


def _parsed(file: Any, at: int, size: int, file_name: str) -> LogBlock:
    """A block whose frame is whole."""
    place = LogBlock(BlockType.CORRUPT, at, size, file_name=file_name).place
    version, kind = _KIND.unpack(_read(file, at + _FRONT.size, _KIND.size))
    if version != FORMAT_VERSION:
        raise Unsupported(f"{place}: log format version {version}; known is {FORMAT_VERSION}")
    if kind not in _WRITTEN_TYPES:
        raise Unsupported(f"{place}: block type {kind}; known are 0 to {max(_WRITTEN_TYPES)}, and 2 is never written")
    last = at + size - _LONG.size  # the trailing size begins here
    header, behind = _read_map(file, at + _FRONT.size + _KIND.size, last, place)
    content_size = _LONG.unpack(_read(file, behind, _LONG.size))[0] if behind + _LONG.size <= last else -1
    content_offset = behind + _LONG.size
    if not 0 <= content_size <= last - content_offset:
        raise CorruptFile(f"{place}: a content of {content_size} bytes does not fit into it")
    footer, behind = _read_map(file, content_offset + content_size, last, place)
    if behind != last:
        raise CorruptFile(f"{place}: its parts end at byte {behind}, and the block at {last}")
    block = LogBlock(BlockType(kind), at, size, header, footer, content_offset, content_size, version, file_name)
    if block.type is BlockType.COMMAND and not block.is_rollback:
        raise Unsupported(f"{place}: command {header.get(HeaderKey.COMMAND_BLOCK_TYPE)!r}; known is {ROLLBACK} (rollback)")
    return block


_WRITTEN_TYPES = frozenset(kind.value for kind in BlockType) - {BlockType.CORRUPT.value}


def _read_map(file: Any, at: int, last: int, place: str) -> tuple[dict[int, str], int]:
    """A header or footer map, and where it ends."""
    window, base, entries = _read(file, at, min(_HEADER_WINDOW, last - at)), at, {}
    try:
        count, at = _INT.unpack_from(window)[0], at + _INT.size
        if not 0 <= count <= (last - at) // _KIND.size:
            raise CorruptFile(f"{place}: a map at byte {base} claims {count} entries")
        for _ in range(count):
            if at + _KIND.size > base + len(window):
                window, base = _read(file, at, min(_HEADER_WINDOW, last - at)), at
            key, size = _KIND.unpack_from(window, at - base)
            at += _KIND.size
            if not 0 <= size <= last - at:
                raise CorruptFile(f"{place}: an entry of {size} bytes in the map before byte {at} does not fit into it")
            if at + size > base + len(window):
                window, base = _read(file, at, max(size, min(_HEADER_WINDOW, last - at))), at
            entries[key] = window[at - base : at - base + size].decode()
            at += size
    except (struct.error, UnicodeDecodeError) as cause:
        raise CorruptFile(f"{place}: a map near byte {at} cannot be read: {cause}") from cause
    return entries, at


def _read(file: Any, at: int, size: int) -> bytes:
    file.seek(at)
    found: bytes = file.read(size)
    return found


def _map_bytes(entries: Mapping[HeaderKey, str]) -> bytes:
    parts = [_INT.pack(len(entries))]
    for key, text in entries.items():
        value = text.encode()
        parts += [_KIND.pack(key, len(value)), value]
    return b"".join(parts)


def _headers(instant: str, schema: Avro, positions: Positions | None) -> dict[HeaderKey, str]:
    headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: _text(schema)}
    return headers if positions is None else {**headers, HeaderKey.RECORD_POSITIONS: encode_positions(positions)}


def _text(schema: Avro) -> str:
    return schema if isinstance(schema, str) else avro_text(schema)


def _avro_parts(content: pa.Buffer, schema: str, wanted: Sequence[str], records: int) -> Iterator[pa.Table]:
    starts, ends = record_places(content)
    for at in range(0, len(starts), records):
        part = slice(at, at + records)
        yield decode_records(content, starts[part], ends[part], schema, columns=wanted)


def _parquet_parts(content: pa.Buffer, schema: str, wanted: Sequence[str], records: int) -> Iterator[pa.Table]:
    kind = arrow_of_avro(schema)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        names = [name for name in kind.names if name in file.schema_arrow.names and name in wanted]
        target = pa.schema([kind.field(name) for name in names])
        for group in range(file.metadata.num_row_groups):
            yield fit(file.read_row_group(group, columns=names, use_threads=False), target)
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
    kind = arrow_of_avro(schema)
    wanted = columns if columns is not None else arrow_of_avro(read_schema).names if read_schema is not None else kind.names
    parts = list(read_parts(content, schema, wanted, RECORDS_OF_A_PART))
    names = [name for name in kind.names if name in wanted]
    rows = pa.concat_tables(parts) if parts else pa.schema([kind.field(name) for name in names]).empty_table()
    return rows if read_schema is None else resolved(rows, read_schema, columns)

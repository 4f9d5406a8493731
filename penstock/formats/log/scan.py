"""Finds the blocks of a log file, forwards or backwards, and reads everything of them but their contents."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from penstock.errors import CorruptFile, Unsupported
from penstock.formats.log.block import FORMAT_VERSION, FRONT, INT, KIND, LONG, MAGIC, ROLLBACK, BlockType, HeaderKey, LogBlock
from penstock.formats.log.read import open_log

_LEAST_SIZE = KIND.size + INT.size + LONG.size + INT.size + LONG.size  # both maps and the content empty
_HEADER_WINDOW = 64 * 1024
_SEARCH_WINDOW = 1024 * 1024
#: Of a block that is not whole, the header is read up to here.
_TORN_HEADER = 1024 * 1024
_WRITTEN_TYPES = frozenset(kind.value for kind in BlockType) - {BlockType.CORRUPT.value}


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
        size = LONG.unpack(_read(file, at - LONG.size, LONG.size))[0] + LONG.size if at >= LONG.size else -1
        block = _block_at(file, at - size, at, file_name) if 0 < size <= at else None
        if block is None or block.type is BlockType.CORRUPT:
            raise CorruptFile(f"log file {file_name or '(unnamed)'}: no whole block ends at byte {at}; read it forwards")
        yield block
        at = block.offset


def _block_at(file: Any, at: int, end: int, file_name: str) -> LogBlock:
    size = _whole_size(file, at, end)
    if size is None:
        behind = _next_magic(file, min(at + len(MAGIC), end), end)
        return LogBlock(BlockType.CORRUPT, at, behind - at, _torn_header(file, at, behind), file_name=file_name)
    return _parsed(file, at, size, file_name)


def _torn_header(file: Any, at: int, end: int) -> dict[int, str]:
    """What a block that is not whole says about itself, as far as that can be read."""
    begin = at + FRONT.size + KIND.size
    if begin + INT.size > end:
        return {}
    try:
        return _read_map(file, begin, min(end, begin + _TORN_HEADER), "")[0]
    except CorruptFile:
        return {}


def _whole_size(file: Any, at: int, end: int) -> int | None:
    """How many bytes the block takes, if both its sizes agree and the next block or the end of the file is behind it."""
    if end - at < FRONT.size + _LEAST_SIZE:
        return None
    magic, size = FRONT.unpack(_read(file, at, FRONT.size))
    behind = at + FRONT.size + size
    if magic != MAGIC or size < _LEAST_SIZE or behind > end:
        return None
    trailing = _read(file, behind - LONG.size, LONG.size + len(MAGIC))
    if LONG.unpack_from(trailing)[0] != size + len(MAGIC):
        return None
    follower = trailing[LONG.size :]
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
    version, kind = KIND.unpack(_read(file, at + FRONT.size, KIND.size))
    if version != FORMAT_VERSION:
        raise Unsupported(f"{place}: log format version {version}; known is {FORMAT_VERSION}")
    if kind not in _WRITTEN_TYPES:
        raise Unsupported(f"{place}: block type {kind}; known are 0 to {max(_WRITTEN_TYPES)}, and 2 is never written")
    last = at + size - LONG.size  # the trailing size begins here
    header, behind = _read_map(file, at + FRONT.size + KIND.size, last, place)
    content_size = LONG.unpack(_read(file, behind, LONG.size))[0] if behind + LONG.size <= last else -1
    content_offset = behind + LONG.size
    if not 0 <= content_size <= last - content_offset:
        raise CorruptFile(f"{place}: a content of {content_size} bytes does not fit into it")
    footer, behind = _read_map(file, content_offset + content_size, last, place)
    if behind != last:
        raise CorruptFile(f"{place}: its parts end at byte {behind}, and the block at {last}")
    block = LogBlock(BlockType(kind), at, size, header, footer, content_offset, content_size, version, file_name)
    if block.type is BlockType.COMMAND and not block.is_rollback:
        raise Unsupported(f"{place}: command {header.get(HeaderKey.COMMAND_BLOCK_TYPE)!r}; known is {ROLLBACK} (rollback)")
    return block


def _read_map(file: Any, at: int, last: int, place: str) -> tuple[dict[int, str], int]:
    """A header or footer map, and where it ends."""
    window, base, entries = _read(file, at, min(_HEADER_WINDOW, last - at)), at, {}
    try:
        count, at = INT.unpack_from(window)[0], at + INT.size
        if not 0 <= count <= (last - at) // KIND.size:
            raise CorruptFile(f"{place}: a map at byte {base} claims {count} entries")
        for _ in range(count):
            if at + KIND.size > base + len(window):
                window, base = _read(file, at, min(_HEADER_WINDOW, last - at)), at
            key, size = KIND.unpack_from(window, at - base)
            at += KIND.size
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

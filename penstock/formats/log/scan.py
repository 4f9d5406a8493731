"""Finds the blocks of a log file, forwards or backwards, and reads all of each block except its content.

A scan needs little memory, however large the log is. A block is whole if its two sizes agree and another block or the end of the
file follows. A block that is not whole (torn) is returned with type CORRUPT, and the scan continues at the next magic. The
argument `known_ends` holds offsets at which completed writes ended, from the write stats in their commits. A block that ends at
one of them is whole whatever bytes follow. A block that is whole but whose parts cannot be read is called malformed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from penstock.errors import CorruptFile, Unsupported
from penstock.formats.log.block import FORMAT_VERSION, FRONT, INT, INT_PAIR, LONG, MAGIC, ROLLBACK, BlockType, HeaderKey, LogBlock
from penstock.formats.log.read import open_log

#: The size of a block after its front, if both maps and the content are empty: version and type, header map, length of the
#: content, footer map, trailing size.
_LEAST_SIZE = INT_PAIR.size + INT.size + LONG.size + INT.size + LONG.size
_HEADER_WINDOW = 64 * 1024
_SEARCH_WINDOW = 1024 * 1024
#: The most bytes to read of the header of a torn block, whose sizes cannot be trusted.
_MOST_TORN_HEADER = 1024 * 1024
_WRITTEN_TYPES = frozenset(kind.value for kind in BlockType) - {BlockType.CORRUPT.value}


def scan_blocks(
    log: Any, *, file_name: str = "", known_ends: frozenset[int] = frozenset(), skips_malformed: bool = False
) -> Iterator[LogBlock]:
    """Yield the blocks of a log file in order, without their contents.

    Args:
        log: an open log file, or its bytes.
        file_name: the file's name, for error messages.
        known_ends: offsets at which completed writes ended. Between these offsets and the next magic there may be any bytes,
            which a crashed append left.
        skips_malformed: whether to yield a CORRUPT block that has the error text as its `problem`, instead of raising an error.

    Raises:
        CorruptFile: the file does not begin with a block, or a block is whole but malformed.
        Unsupported: a block has an unknown log format version, type or command.
    """
    file = open_log(log)
    end = file.size()
    at = 0
    while at < end:
        # This can only fail at the beginning of the file: every later block was found by its magic, or follows a known end.
        if at not in known_ends and end - at >= len(MAGIC) and _read(file, at, len(MAGIC)) != MAGIC:
            problem = f"log file {file_name or '(unnamed)'}, byte {at}: there is no block"
            if not skips_malformed:
                raise CorruptFile(problem)
            next_at = _find_magic(file, at + 1, end)
            block = LogBlock(BlockType.CORRUPT, at, next_at - at, file_name=file_name, problem=problem)
        else:
            block = _block_at(file, at, end, file_name, known_ends, skips_malformed)
        yield block
        at += block.size


def scan_blocks_backwards(log: Any, *, file_name: str = "") -> Iterator[LogBlock]:
    """Yield the blocks of a log file, the last one first, without their contents. Each block is found by the size at its end.

    Args:
        log: an open log file, or its bytes.
        file_name: the file's name, for error messages.

    Raises:
        CorruptFile: a block is malformed or not whole: only a forward scan can find the next block then.
        Unsupported: a block has an unknown log format version, type or command.
    """
    file = open_log(log)
    end = file.size()
    while end > 0:
        block = None
        if end >= LONG.size:
            # The trailing size does not count itself.
            size = LONG.unpack(_read(file, end - LONG.size, LONG.size))[0] + LONG.size
            if 0 < size <= end:
                block = _block_at(file, end - size, end, file_name)
        if block is None or block.type is BlockType.CORRUPT:
            raise CorruptFile(f"log file {file_name or '(unnamed)'}: no whole block ends at byte {end}; read it forwards")
        yield block
        end = block.offset


def _block_at(
    file: Any, at: int, end: int, file_name: str, known_ends: frozenset[int] = frozenset(), skips_malformed: bool = False
) -> LogBlock:
    """Return the block at offset `at`. A block that is not whole has type CORRUPT and extends to the next magic, or to `end`.

    A CORRUPT block never extends past an offset of `known_ends`, because the bytes after that offset belong to another write.

    Args:
        end: the end of the file.
        known_ends: offsets at which completed writes ended.
        skips_malformed: whether to return a block that is whole, but cannot be read, as a CORRUPT block with a `problem`.
    """
    size = _whole_size(file, at, end, known_ends)
    if size is None:
        search_from = at + (1 if at in known_ends else len(MAGIC))
        next_at = _find_magic(file, min(search_from, end), end)
        next_at = min([next_at, *(known for known in known_ends if known > at)])
        header = _read_torn_header(file, at, next_at)
        return LogBlock(BlockType.CORRUPT, at, next_at - at, header, file_name=file_name)
    if not skips_malformed:
        return _read_block(file, at, size, file_name)
    try:
        block = _read_block(file, at, size, file_name)
        _ = block.target_instant if block.is_rollback else block.instant  # raises an error if the header has none
        return block
    except (CorruptFile, Unsupported) as problem:
        header = _read_torn_header(file, at, at + size)
        return LogBlock(BlockType.CORRUPT, at, size, header, file_name=file_name, problem=str(problem))


def _read_torn_header(file: Any, at: int, end: int) -> dict[int, str]:
    """Return the header of the torn or malformed block from `at` to `end`; an empty map if the header cannot be read.

    The header may name the instant that wrote the block. By this instant, readers of the log find out whether a completed write
    lost rows.
    """
    header_at = at + FRONT.size + INT_PAIR.size
    if header_at + INT.size > end:
        return {}
    try:
        header, _ = _read_map(file, header_at, min(end, header_at + _MOST_TORN_HEADER), "")
    except CorruptFile:
        return {}
    return header


def _whole_size(file: Any, at: int, end: int, known_ends: frozenset[int]) -> int | None:
    """Return the size of the block at offset `at`; None if the block is not whole.

    The size of a block is stored at its head and at its tail. A block is whole if both agree, and the place where it ends is the
    end of the file, the beginning of another block or the end of a completed write.

    Args:
        end: where the file ends, or where the part of it ends that is searched.
        known_ends: offsets at which completed writes ended.
    """
    if end - at < FRONT.size + _LEAST_SIZE:
        return None
    magic, size = FRONT.unpack(_read(file, at, FRONT.size))
    next_at = at + FRONT.size + size
    if magic != MAGIC or size < _LEAST_SIZE or next_at > end:
        return None
    tail = _read(file, next_at - LONG.size, LONG.size + len(MAGIC))
    # The first size counts the bytes after itself, the trailing size those from the magic on, without itself. Both fields have
    # eight bytes, so they differ by the magic.
    if LONG.unpack_from(tail)[0] != size + len(MAGIC):
        return None
    next_bytes = tail[LONG.size :]
    # Fewer bytes than a magic are the torn beginning of another block. A backward scan passes the end of this block as `end`.
    if next_at == end or next_at in known_ends or next_bytes == MAGIC or end - next_at < len(MAGIC):
        return next_at - at
    return None


def _find_magic(file: Any, at: int, end: int) -> int:
    """Return the offset of the next magic from `at` on; `end`, the end of the file, if there is none."""
    while at < end:
        window = _read(file, at, min(_SEARCH_WINDOW, end - at))
        found_at = window.find(MAGIC)
        if found_at >= 0:
            return at + found_at
        if len(window) < len(MAGIC):
            return end
        at += len(window) - len(MAGIC) + 1  # windows overlap: a magic may lie across two of them
    return end


def _read_block(file: Any, at: int, size: int, file_name: str) -> LogBlock:
    """Return the block at offset `at`, which is whole and has `size` bytes, without its content.

    Raises:
        CorruptFile: the header, footer or content does not fit into the block.
        Unsupported: the log format version, block type or command is unknown.
    """
    place = LogBlock(BlockType.CORRUPT, at, size, file_name=file_name).place
    version, kind = INT_PAIR.unpack(_read(file, at + FRONT.size, INT_PAIR.size))
    if version != FORMAT_VERSION:
        raise Unsupported(f"{place}: log format version {version}; known is {FORMAT_VERSION}")
    if kind not in _WRITTEN_TYPES:
        raise Unsupported(f"{place}: block type {kind}; known are 0 to {max(_WRITTEN_TYPES)}, and 2 is never written")
    trailing_size_at = at + size - LONG.size
    header, header_end = _read_map(file, at + FRONT.size + INT_PAIR.size, trailing_size_at, place)
    content_offset = header_end + LONG.size
    content_size = -1
    if content_offset <= trailing_size_at:
        content_size = LONG.unpack(_read(file, header_end, LONG.size))[0]
    if not 0 <= content_size <= trailing_size_at - content_offset:
        raise CorruptFile(f"{place}: a content of {content_size} bytes does not fit into it")
    footer, footer_end = _read_map(file, content_offset + content_size, trailing_size_at, place)
    if footer_end != trailing_size_at:
        raise CorruptFile(f"{place}: its parts end at byte {footer_end}, and the block at {trailing_size_at}")
    block = LogBlock(BlockType(kind), at, size, header, footer, content_offset, content_size, version, file_name)
    if block.type is BlockType.COMMAND and not block.is_rollback:
        raise Unsupported(f"{place}: command {header.get(HeaderKey.COMMAND_BLOCK_TYPE)!r}; known is {ROLLBACK} (rollback)")
    return block


def _read_map(file: Any, at: int, end: int, place: str) -> tuple[dict[int, str], int]:
    """Return (header or footer map at offset `at`, offset after the map). Raises CorruptFile if an entry extends past `end`.

    The map is read in windows of 64 KiB, because its size is not known beforehand, and a schema in a header may be large.

    Args:
        place: the file name and offset of the block, for error messages.
    """
    window_at = at
    window = _read(file, at, min(_HEADER_WINDOW, end - at))
    entries = {}
    try:
        count = INT.unpack_from(window)[0]
        at += INT.size
        if not 0 <= count <= (end - at) // INT_PAIR.size:
            raise CorruptFile(f"{place}: a map at byte {window_at} claims {count} entries")
        for _ in range(count):
            if at + INT_PAIR.size > window_at + len(window):
                window_at = at
                window = _read(file, at, min(_HEADER_WINDOW, end - at))
            key, size = INT_PAIR.unpack_from(window, at - window_at)
            at += INT_PAIR.size
            if not 0 <= size <= end - at:
                raise CorruptFile(f"{place}: an entry of {size} bytes in the map before byte {at} does not fit into it")
            if at + size > window_at + len(window):
                window_at = at
                window = _read(file, at, max(size, min(_HEADER_WINDOW, end - at)))
            entries[key] = window[at - window_at : at - window_at + size].decode()
            at += size
    except (struct.error, UnicodeDecodeError) as cause:
        raise CorruptFile(f"{place}: a map near byte {at} cannot be read: {cause}") from cause
    return entries, at


def _read(file: Any, at: int, size: int) -> bytes:
    """Return `size` bytes from offset `at` on, or fewer at the end of the file."""
    file.seek(at)
    data: bytes = file.read(size)
    return data

"""The log files of a file slice: which of their blocks count, and the records in these blocks.

No other module decides which blocks count, and this module merges nothing. `scan_slice` makes the decision from the block
headers, before any content is read, and returns a `LogScan`:

1. Files come in the order of the slice, blocks in the order of the file. A torn or damaged block is skipped, as in Hudi. But a
   damaged block of a completed Penstock write is an error, because Penstock completes no write with a torn block. So is a file
   of zero bytes for which such a write recorded a size. A commit
   records the size of its log file. Bytes after that size are no part of the write: a crashed append of another writer left
   them. With the option to skip damaged blocks, damage is never an error. The scan then also reads the contents of blocks,
   leaves out what cannot be read, and lists it.
2. A block of rows or deletes counts if its instant is committed and not later than the time of the query. If it is later, it is
   skipped, and the blocks after it are still read. (Hudi 0.15 stops at a block with a later instant, even at a rollback block,
   and may miss the blocks of earlier commits that follow it.)
3. A rollback block cancels what its target instant wrote before it, whatever the time of the rollback is: the target never was
   committed.
4. A block of a log compaction names the instants whose blocks it replaces. It is read where the last of these blocks was.

`read_records` then reads the contents part by part, oldest first, and only the wanted columns.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptFile, PenstockError, Unsupported
from penstock.filegroup.fill_meta_columns import KEY_COLUMN, record_keys
from penstock.filegroup.log.committed_times import CommittedTimes
from penstock.filegroup.log.damaged_block import DamagedBlock
from penstock.filegroup.model import FileSlice, LogFile
from penstock.filegroup.names import is_marked_token
from penstock.formats.log import BlockType, HeaderKey, LogBlock, read_deletes, read_row_parts, scan_blocks
from penstock.formats.log.deletes import Deletes
from penstock.formats.log.large_block import PART_BYTES
from penstock.merge.kernels.fold import LogRecords
from penstock.merge.kernels.gather import Positions, find_column, to_array
from penstock.options import SKIP_DAMAGED_BLOCKS
from penstock.schema import avro_to_arrow
from penstock.schema.avro import AvroRecord
from penstock.storage import Storage
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.store import read_log_stat

#: About what a null value takes in an Arrow column: 8 bytes of value or offset, and a validity bit.
_NULL_BYTES = 9
#: Deletes yielded at once, however many columns their null rows have.
_FEWEST_DELETES = 1024


@dataclass(frozen=True)
class LogColumns:
    """The columns of log records to read, and which of these columns hold the record key and the ordering value."""

    #: The Avro schema that rows are read in, meta columns included.
    schema: AvroRecord
    #: The columns that are read, the record key and the ordering column among them.
    names: tuple[str, ...]
    #: The column, or field of a struct, whose values say which record of a key is newer; None: the later record is.
    ordering: str | None = None
    #: The column that holds record keys.
    key: str = KEY_COLUMN
    #: About how much of a block is in memory at a time.
    part_bytes: int = PART_BYTES

    @property
    def arrow(self) -> pa.Schema:
        """The columns of log records as an Arrow schema. All are nullable, since the row of a delete is all null."""
        names = frozenset(self.names)
        whole = avro_to_arrow(self.schema)
        return pa.schema([column.with_nullable(True) for column in whole if column.name in names])


class BlockInFile(NamedTuple):
    """The header of a log block, and the log file that the block is in."""

    file: LogFile
    block: LogBlock


@dataclass(frozen=True)
class ScanCounts:
    """How many files, bytes and blocks a log scan covered, for the write stats of a compaction."""

    files: int = 0
    size_bytes: int = 0
    blocks: int = 0
    corrupt_blocks: int = 0
    rollback_blocks: int = 0


@dataclass(frozen=True)
class LogScan:
    """The blocks of a slice's log to read, found from block headers. Pickled to workers, which then read no headers.

    `instants` has the instants of all blocks of rows and deletes and the targets of all rollback blocks, whether they are read or
    not. `damaged` has the damaged blocks that were skipped.
    """

    #: The blocks of rows and deletes that count, oldest first.
    blocks: tuple[BlockInFile, ...] = ()
    counts: ScanCounts = field(default_factory=ScanCounts)
    #: Instants of all blocks of rows and deletes, and targets of all rollback blocks, whether the blocks count or not.
    instants: frozenset[str] = frozenset()
    #: Damaged blocks of completed or unknown writes that were skipped, because `CommittedTimes.skips_damaged` says so.
    damaged: tuple[DamagedBlock, ...] = ()


def scan_slice(storage: Storage, file_slice: FileSlice, times: CommittedTimes) -> LogScan:
    """Read the block headers of a slice's log files, and decide which blocks a query reads.

    Args:
        times: the instants whose blocks are read.

    Raises:
        CorruptFile: a file is missing or is no log file, a block of a completed write is damaged, or the slice's base file is
            missing.
        Unsupported: a block has an unknown type or version.
    """
    scan = scan_log_files(storage, file_slice.log_files, times)
    # A file group that began with a log has a block of its first instant, even if that write was rolled back. Without one, the
    # group began with a base file: its rows are lost, and reading the log alone would hide that.
    if file_slice.base_file is None and scan.blocks and file_slice.base_instant not in scan.instants:
        raise CorruptFile(
            f"base file of {scan.blocks[0].file.path} is missing: nothing in the log was written by {file_slice.base_instant}, "
            "so the file group began with a base file of that instant. Restore it from a copy"
        )
    return scan


def scan_log_files(storage: Storage, files: Sequence[LogFile], times: CommittedTimes) -> LogScan:
    """Read the block headers of log files, and decide which blocks a query reads.

    The content of blocks is read only if damaged blocks are skipped.

    Args:
        files: the log files in reading order.
        times: the instants whose blocks are read.

    Raises:
        CorruptFile: a file is missing or is no log file, or a block of a completed write is damaged.
        Unsupported: a block has an unknown type or version.
    """
    queue = _BlockQueue(times)
    for file in files:
        for block, damage in _scan_file(storage, file, times):
            queue.add(file, block, damage)
    if times.skips_damaged:
        queue.drop_unreadable(storage)
    else:
        queue.check_damaged()
    counts = ScanCounts(
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        blocks=queue.block_count,
        corrupt_blocks=queue.corrupt_count,
        rollback_blocks=queue.rollback_count,
    )
    blocks = tuple(_put_compacted_in_place(queue.committed))
    return LogScan(blocks, counts, frozenset(queue.instants), tuple(queue.damaged))


def _scan_file(storage: Storage, file: LogFile, times: CommittedTimes) -> list[tuple[LogBlock, DamagedBlock | None]]:
    """Return the blocks of a log file as (block, damage). The damage is None if the block is whole, or torn by a crash.

    If a block is not whole, the commits of the writes that may have written it are read: they record the size that the file had
    after the write. The file is then scanned again with these sizes. A block that ends at one of them is whole, whatever a
    crashed append left after it.
    """
    with open_log_file(storage, file) as log:
        blocks = list(scan_blocks(log, file_name=file.path, skips_malformed=times.skips_damaged))
        if not blocks:
            return _scan_empty_file(storage, file, times)
        stats: dict[str, WriteStat] = {}
        corrupt = [block for block in blocks if block.type is BlockType.CORRUPT]
        if corrupt:
            stats = _read_log_stats(storage, file, corrupt, times)
        if stats:
            ends = frozenset(stat.file_size_in_bytes for stat in stats.values())
            blocks = list(scan_blocks(log, file_name=file.path, known_ends=ends, skips_malformed=times.skips_damaged))
    found: list[tuple[LogBlock, DamagedBlock | None]] = []
    for block in blocks:
        is_corrupt = block.type is BlockType.CORRUPT
        found.append((block, _find_damage(file, block, times, stats) if is_corrupt else None))
    return found


def _scan_empty_file(storage: Storage, file: LogFile, times: CommittedTimes) -> list[tuple[LogBlock, DamagedBlock | None]]:
    """Return the damage of a log file of zero bytes, in the form of `_scan_file`: one torn block without bytes.

    The list is empty if no completed write recorded a size for the file: a task that died may leave an empty file, which no
    commit names.
    """
    block = LogBlock(BlockType.CORRUPT, 0, 0, file_name=file.path)
    stats = _read_log_stats(storage, file, [block], times)
    return [(block, find_lost_end(file, instant, stat)) for instant, stat in stats.items()]


def find_lost_end(file: LogFile, instant: str, stat: WriteStat) -> DamagedBlock | None:
    """Describe the missing end of a log file that is shorter than a write recorded; return None if the file is not shorter.

    Args:
        instant: the completed write.
        stat: the write stat of this write for the file.
    """
    missing = stat.file_size_in_bytes - file.size_bytes
    if missing <= 0:
        return None
    problem = (
        f"log file {file.path} is shorter than write {instant} recorded: {file.size_bytes:,} of {stat.file_size_in_bytes:,} bytes"
    )
    return DamagedBlock(file.path, file.size_bytes, missing, instant, _count_records(stat), problem)


def _find_damage(file: LogFile, block: LogBlock, times: CommittedTimes, stats: Mapping[str, WriteStat]) -> DamagedBlock | None:
    """Describe what was lost with a block that is torn (written in part) or malformed; None if no completed write lost anything.

    Args:
        stats: the write stats of completed writes to the file, by instant.
    """
    for instant in _completed_writers(file, block, times):
        stat = stats.get(instant)
        if stat is None or block.offset < stat.file_size_in_bytes:
            problem = f"{block.place}: it is damaged, and write {instant} had completed it"
            return DamagedBlock(file.path, block.offset, block.size, instant, _count_records(stat), problem)
    named = block.header.get(HeaderKey.INSTANT_TIME)
    is_behind = bool(stats) and block.offset >= max(stat.file_size_in_bytes for stat in stats.values())
    if not block.problem or is_behind or (named is not None and not times.sees(named)):
        return None
    records = None if named is None else _count_records(stats.get(named))
    return DamagedBlock(file.path, block.offset, block.size, named, records, block.problem)


def _count_records(stat: WriteStat | None) -> int | None:
    """Return how many rows and deletes a write put into a log file; None if its write stat is not known."""
    return None if stat is None else stat.num_writes + stat.num_deletes


def _read_log_stats(storage: Storage, file: LogFile, blocks: Iterable[LogBlock], times: CommittedTimes) -> dict[str, WriteStat]:
    """Return the write stat of each completed write that may have written one of the blocks of a log file, by instant.

    A write is missing in the result if it is archived, or if its commit does not name the file.
    """
    if times.base_path is None:
        return {}
    instants: set[str] = set()
    for block in blocks:
        instants.update(_completed_writers(file, block, times))
        named = block.header.get(HeaderKey.INSTANT_TIME)
        if named is not None and times.sees(named):
            instants.add(named)
    stats: dict[str, WriteStat] = {}
    for instant in sorted(instants):
        stat = read_log_stat(storage, times.base_path, instant, file.name)
        if stat is not None and stat.file_size_in_bytes:
            stats[instant] = stat
    return stats


class _BlockQueue:
    """Decides which blocks of a log to read, from their headers, which are added in the order of the log.

    `committed` holds the blocks to read, oldest first.
    """

    def __init__(self, times: CommittedTimes) -> None:
        self._times = times
        self.committed: list[BlockInFile] = []
        self.damaged: list[DamagedBlock] = []
        self.instants: set[str] = set()
        self.block_count = 0
        self.corrupt_count = 0
        self.rollback_count = 0

    def add(self, file: LogFile, block: LogBlock, damage: DamagedBlock | None) -> None:
        """Process the header of the next block: queue the block, drop it, or drop the queued blocks that it rolls back.

        Args:
            damage: what was lost with the block; None if nothing was.
        """
        self.block_count += 1
        if block.type is BlockType.CORRUPT:
            self.corrupt_count += 1
            if damage is not None:
                self.damaged.append(damage)
        elif block.is_rollback:
            self.rollback_count += 1
            self._roll_back(block.target_instant)
        else:
            self.instants.add(block.instant)
            if self._times.sees(block.instant):
                self.committed.append(BlockInFile(file, _with_shared_schema(block)))

    def _roll_back(self, target: str) -> None:
        """Drop the blocks of the instant `target`, damaged ones too, because a rollback block cancels them."""
        self.instants.add(target)
        self.committed = [entry for entry in self.committed if entry.block.instant != target]
        self.damaged = [block for block in self.damaged if block.instant != target]

    def check_damaged(self) -> None:
        """Raise CorruptFile if a block of a completed write is damaged and not rolled back. Call after the last `add`."""
        for block in self.damaged:
            raise CorruptFile(
                f"{block.problem}; restore the file from a copy, or go on without the block: set "
                f"{SKIP_DAMAGED_BLOCKS.key}=true, or repair the table with Table.repair"
            )

    def drop_unreadable(self, storage: Storage) -> None:
        """Read the contents of the queued blocks; move those that cannot be read to `damaged`. Call after the last `add`."""
        readable: list[BlockInFile] = []
        for file, entries in groupby(self.committed, attrgetter("file")):
            with open_log_file(storage, file) as log:
                for entry in entries:
                    problem = _find_content_problem(log, entry.block)
                    if problem is None:
                        readable.append(entry)
                        continue
                    block = entry.block
                    stat = _read_log_stats(storage, file, [block], self._times).get(block.instant)
                    lost = DamagedBlock(file.path, block.offset, block.size, block.instant, _count_records(stat), problem)
                    self.damaged.append(lost)
        self.corrupt_count += len(self.committed) - len(readable)
        self.committed = readable


def _find_content_problem(log: pa.NativeFile, block: LogBlock) -> str | None:
    """Read the whole content of a block; return what is wrong with it, or None if it can be read."""
    try:
        _ = block.positions  # raises an error if the positions in the header cannot be decoded
        if block.type is BlockType.DELETE:
            _check_keys(read_deletes(log, block).keys, block)
        else:
            check_block_type(block)
            for _ in read_row_parts(log, block, read_schema=block.schema):
                pass
    except PenstockError as problem:
        return str(problem)
    return None


def _with_shared_schema(block: LogBlock) -> LogBlock:
    """Return the block with its schema string interned: blocks with equal schemas share one string, which pickle writes once."""
    if HeaderKey.SCHEMA not in block.header:
        return block
    return replace(block, header={**block.header, HeaderKey.SCHEMA: sys.intern(block.schema)})


def _completed_writers(file: LogFile, block: LogBlock, times: CommittedTimes) -> list[str]:
    """Return a list with the instant of the completed Penstock write that wrote a damaged block; an empty list if there is none.

    If the block's header names an instant, only that instant is considered. Otherwise it is found by the checksum in the log
    file's write token.
    """
    named = block.header.get(HeaderKey.INSTANT_TIME)
    instants = times.completed if named is None else [named]
    return [instant for instant in instants if is_marked_token(file.write_token, instant) and times.sees(instant)]


def _put_compacted_in_place(queue: list[BlockInFile]) -> list[BlockInFile]:
    """Return the blocks in reading order, with the blocks of log compactions in place of the blocks that these replace.

    Args:
        queue: the blocks to read, oldest first, both those of log compactions and those that they replace.
    """
    if not any(entry.block.compacted_instants for entry in queue):
        return queue
    # Instant → the log compaction that contains its blocks; the last one, if log compactions were compacted again.
    compacted_by: dict[str, str] = {}
    for entry in reversed(queue):
        last = compacted_by.get(entry.block.instant, entry.block.instant)
        for instant in entry.block.compacted_instants:
            compacted_by.setdefault(instant, last)
    place: dict[str, int] = {}  # of the last plain block that an instant stands for
    for number, entry in enumerate(queue):
        if not entry.block.compacted_instants:
            place[compacted_by.get(entry.block.instant, entry.block.instant)] = number
    kept: list[tuple[int, BlockInFile]] = []
    for number, entry in enumerate(queue):
        if entry.block.instant not in compacted_by:
            kept.append((place.get(entry.block.instant, number), entry))
    kept.sort(key=lambda numbered: numbered[0])
    return [entry for _, entry in kept]


def touched_positions(file_slice: FileSlice, scan: LogScan) -> Positions | None:
    """Return the positions of the base file's rows that the log changes or deletes, from block headers alone.

    The positions are not sorted, and may repeat. The result is None if a block names no positions, or may name positions in
    another base file. Rows must then be found by key. Only Penstock's own blocks are trusted: while a compaction is pending, the
    positions in Hudi 0.15's blocks are those of the base file that the compaction replaces.
    """
    base = file_slice.base_file
    if base is None or any(log.base_instant != base.instant for log in file_slice.log_files):
        return None
    named = [np.empty(0, np.int64)]
    for file, block in scan.blocks:
        positions = block.positions if is_marked_token(file.write_token, block.instant) else None
        if positions is None:
            return None
        named.append(positions)
    return np.concatenate(named)


def read_records(storage: Storage, blocks: Iterable[BlockInFile], columns: LogColumns) -> Iterator[LogRecords]:
    """Yield the records of log blocks, in the order of the blocks, part by part.

    Raises:
        CorruptFile: the content of a block does not match its header, or a record has no key.
        SchemaError: a stored column cannot be cast to its type in the schema.
        Unsupported: a block holds neither rows of a table nor deletes.
    """
    arrow = columns.arrow
    for file, blocks_of_file in groupby(blocks, attrgetter("file")):
        with open_log_file(storage, file) as log:
            for entry in blocks_of_file:
                yield from _records_of_block(log, entry.block, columns, arrow)


def open_log_file(storage: Storage, file: LogFile) -> pa.NativeFile:
    """Open a log file for reading. Raises CorruptFile if it is missing."""
    try:
        return storage.open(file.path)
    except FileNotFoundError as e:
        raise CorruptFile(f"log file {file.path} is missing, although it is part of the table's file slice") from e


def check_block_type(block: LogBlock) -> None:
    """Raise Unsupported if the block holds CDC data instead of rows of the table."""
    if block.type is BlockType.CDC_DATA:
        raise Unsupported(
            f"{block.place}: a {block.type.name} block, which holds no rows of a table; it belongs into a file whose name ends "
            "with .cdc"
        )


def _records_of_block(log: pa.NativeFile, block: LogBlock, columns: LogColumns, arrow: pa.Schema) -> Iterator[LogRecords]:
    """Yield the records of one block, rows or deletes, part by part. `arrow` has the columns of the records."""
    if block.type is BlockType.DELETE:
        yield from _delete_records(read_deletes(log, block), block, columns, arrow)
        return
    check_block_type(block)
    parts = read_row_parts(log, block, read_schema=columns.schema, columns=columns.names, part_bytes=columns.part_bytes)
    for rows in parts:
        yield _row_records(rows, block, columns, arrow)


def _row_records(rows: pa.Table, block: LogBlock, columns: LogColumns, arrow: pa.Schema) -> LogRecords:
    """Return rows of a data block as log records, none of them a delete. `arrow` has the columns of the records."""
    keys = _check_keys(to_array(record_keys(rows, columns.key)), block)
    ordering = None if columns.ordering is None else to_array(find_column(rows, columns.ordering))
    table = pa.table(rows.columns, schema=arrow)
    return LogRecords(keys, table, np.zeros(rows.num_rows, np.bool_), ordering)


def _delete_records(deletes: Deletes, block: LogBlock, columns: LogColumns, arrow: pa.Schema) -> Iterator[LogRecords]:
    """Yield the entries of a delete block as log records, part by part.

    The log record of a delete has a row of nulls. For a wide table these rows take much memory, so they are not built all at
    once.

    Args:
        deletes: the entries of the delete block.
        block: the header of the delete block, for error messages.
        arrow: the columns of the log records.
    """
    keys = _check_keys(deletes.keys, block)
    compared = None if columns.ordering is None else find_column(arrow.empty_table(), columns.ordering)
    ordering = None if compared is None else to_array(deletes.ordering(compared.type))
    part_rows = max(_FEWEST_DELETES, columns.part_bytes // (_NULL_BYTES * len(arrow)))
    for start in range(0, len(keys), part_rows):
        part_keys = keys.slice(start, part_rows)
        part_ordering = None if ordering is None else ordering.slice(start, part_rows)
        nulls = pa.table([pa.nulls(len(part_keys), column.type) for column in arrow], schema=arrow)
        yield LogRecords(part_keys, nulls, np.ones(len(part_keys), np.bool_), part_ordering)


def _check_keys(keys: pa.Array, block: LogBlock) -> pa.Array:
    """Return `keys` unchanged. Raises CorruptFile if one is null: a record without a key can be neither merged nor deleted."""
    if keys.null_count:
        raise CorruptFile(f"{block.place}: {keys.null_count} of {len(keys)} records have no record key")
    return keys

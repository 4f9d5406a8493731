"""The log files of a file slice, read into the records that count. Between files and kernels: nothing is merged here.

Which blocks count is decided from their headers, before any content is read:

1. Files in the order of the slice, blocks in the order of the file. A torn or damaged block is passed over, as Hudi does; but
   one in a file of ours whose write was completed is an error, since we complete no write with a torn block.
2. A block of rows or deletes counts if its own instant is committed, and not later than the reader's time. Reading goes on
   behind a later one. (Hudi 0.15 stops there, even at a rollback, and may lose what a commit wrote behind it.)
3. A rollback takes back what its target wrote before it, whatever its own time is: it never was committed.
4. A block that log compaction wrote stands for those of the instants it names, at the place of the last of them.

Contents are then read part by part, oldest first, only the columns asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import CorruptFile, Unsupported
from penstock.filegroup.meta_columns import KEY_COLUMN, record_keys
from penstock.filegroup.model import FileSlice, LogFile
from penstock.filegroup.names import is_log_token_of
from penstock.formats.log import BlockType, HeaderKey, LogBlock, read_deletes, read_row_parts, scan_blocks
from penstock.formats.log.deletes import Deletes
from penstock.formats.log.large_block import PART_BYTES
from penstock.merge.kernels.fold import LogRecords
from penstock.merge.kernels.gather import find_column, to_array
from penstock.schema import avro_to_arrow
from penstock.schema.avro import AvroRecord
from penstock.storage import Storage
from penstock.timeline.timeline import Timeline

#: What a null takes, about, and deletes that are handed out at once however many columns there are.
_NULL_BYTES = 9
_FEWEST_DELETES = 1024


@dataclass(frozen=True)
class CommittedTimes:
    """Whose blocks count, for somebody who reads as of a time. Small enough to travel."""

    completed: frozenset[str]
    pending: frozenset[str] = frozenset()
    #: What is older and not pending was archived, so it did complete.
    start: str | None = None
    as_of: str | None = None

    def sees(self, instant: str) -> bool:
        """Whether what this instant wrote counts."""
        if instant in self.pending or (self.as_of is not None and instant > self.as_of):
            return False
        return instant in self.completed or (self.start is not None and instant < self.start)


def committed_times(timeline: Timeline, as_of: str | None = None) -> CommittedTimes:
    """What a timeline says about blocks."""
    return CommittedTimes(timeline.completed_times, timeline.pending_times, timeline.start, as_of)


@dataclass
class ScanCounts:
    """What was met in log files, as the write stats of a compaction tell it."""

    files: int = 0
    size_bytes: int = 0
    blocks: int = 0
    corrupt_blocks: int = 0
    rollback_blocks: int = 0
    #: Rows of the blocks that count; deletes are none.
    records: int = 0
    #: Whose rows and deletes were met, or taken back, whether they count or not.
    instants: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class LogColumns:
    """What is read of each record."""

    #: The Avro schema that rows are read in, meta columns included.
    schema: AvroRecord
    #: The columns that are read, the record key and the ordering column among them.
    names: tuple[str, ...]
    #: The column, or field of a struct, whose values say which record of a key is newer; None: none does.
    ordering: str | None = None
    #: The column that holds record keys.
    key: str = KEY_COLUMN
    #: About how much of a block is in memory at a time.
    part_bytes: int = PART_BYTES

    @property
    def arrow(self) -> pa.Schema:
        """The columns as they come out; each may hold nulls, since a delete has no row."""
        whole = avro_to_arrow(self.schema)
        return pa.schema([field.with_nullable(True) for field in whole if field.name in self.names])


Placed = tuple[LogFile, LogBlock]


def blocks_that_count(
    storage: Storage, files: Sequence[LogFile], times: CommittedTimes, counts: ScanCounts | None = None
) -> list[Placed]:
    """The blocks of rows and deletes that count, oldest first; no content is read.

    Raises:
        CorruptFile: a file is missing, holds what is no log, or a block of a write that was completed is damaged.
        Unsupported: a block of a kind or version that is not known.
    """
    counts = counts if counts is not None else ScanCounts()
    queue: list[Placed] = []
    damaged: list[tuple[str, LogBlock]] = []
    for file in files:
        counts.files += 1
        counts.size_bytes += file.size_bytes
        with open_log_file(storage, file) as log:
            for block in scan_blocks(log, file_name=file.path):
                counts.blocks += 1
                if block.type is BlockType.CORRUPT:
                    counts.corrupt_blocks += 1
                    damaged += [(instant, block) for instant in _completed_by(file, block, times)]
                elif block.is_rollback:
                    counts.rollback_blocks += 1
                    counts.instants.add(block.target_instant)
                    queue = [one for one in queue if one[1].instant != block.target_instant]
                    damaged = [one for one in damaged if one[0] != block.target_instant]
                else:
                    counts.instants.add(block.instant)
                    queue += [(file, block)] if times.sees(block.instant) else []
    for instant, block in damaged:
        raise CorruptFile(f"{block.place}: it is damaged, and write {instant} had completed it; restore the file from a copy")
    return _with_compacted(queue)


def _completed_by(file: LogFile, block: LogBlock, times: CommittedTimes) -> list[str]:
    """The completed write that a damaged block is of, if that is known: its header may tell, and the name of a file of ours."""
    told = block.header.get(HeaderKey.INSTANT_TIME)
    instants = times.completed if told is None else [told]
    return [one for one in instants if is_log_token_of(file.write_token, one) and times.sees(one)]


def positions_touched(storage: Storage, slice_: FileSlice, times: CommittedTimes) -> npt.NDArray[np.int64] | None:
    """Where the rows of a slice's base file stand that its log says something about, by the blocks' headers alone.

    In no order, and as often as blocks say it. None if that takes a look at keys: a block does not say it, or does so of another
    base file. Of blocks of others that is not known: Hudi 0.15 counts in the base file that a pending compaction replaces.
    """
    base, found = slice_.base_file, [np.empty(0, np.int64)]
    if base is None or any(log.base_instant != base.instant for log in slice_.log_files):
        return None
    for file, block in blocks_that_count(storage, slice_.log_files, times):
        positions = block.positions if is_log_token_of(file.write_token, block.instant) else None
        if positions is None:
            return None
        found.append(positions)
    return np.concatenate(found)


def read_records(storage: Storage, blocks: Iterable[Placed], columns: LogColumns) -> Iterator[LogRecords]:
    """The records of blocks, in their order, part by part.

    Raises:
        CorruptFile: a content is not what its block says, or a record has no key.
        SchemaError: a stored column cannot become the type it has in the schema.
        Unsupported: a block that holds neither rows of a table nor deletes.
    """
    arrow = columns.arrow
    for file, its in groupby(blocks, itemgetter(0)):
        with open_log_file(storage, file) as log:
            for _, block in its:
                yield from _records_of_block(log, block, columns, arrow)


def open_log_file(storage: Storage, file: LogFile) -> pa.NativeFile:
    """Open a log file. Raises CorruptFile if it is missing."""
    try:
        return storage.open(file.path)
    except FileNotFoundError as e:
        raise CorruptFile(f"log file {file.path} is missing, although it is part of the table's file slice") from e


def check_block_type(block: LogBlock) -> None:
    """Raises Unsupported for a block that holds no rows of a table."""
    if block.type is BlockType.CDC_DATA:
        raise Unsupported(
            f"{block.place}: a {block.type.name} block, which holds no rows of a table; it belongs into a file whose name ends "
            "with .cdc"
        )


def _with_compacted(queue: list[Placed]) -> list[Placed]:
    """The blocks, with those that log compaction put together in place of what they were made of."""
    if not any(block.compacted_instants for _, block in queue):
        return queue
    stands_for: dict[str, str] = {}  # instant → the log compaction that took its blocks in, the last one if several did
    for _, block in reversed(queue):
        last = stands_for.get(block.instant, block.instant)
        stands_for |= {instant: last for instant in block.compacted_instants if instant not in stands_for}
    place = {
        instant: at
        for at, (_, block) in enumerate(queue)
        for instant in [stands_for.get(block.instant, block.instant)]
        if not block.compacted_instants
    }
    kept = [(at, one) for at, one in enumerate(queue) if one[1].instant not in stands_for]
    return [one for _, one in sorted(kept, key=lambda pair: place.get(pair[1][1].instant, pair[0]))]


def _records_of_block(log: pa.NativeFile, block: LogBlock, columns: LogColumns, arrow: pa.Schema) -> Iterator[LogRecords]:
    if block.type is BlockType.DELETE:
        yield from _delete_records(read_deletes(log, block), block, columns, arrow)
    else:
        check_block_type(block)
        parts = read_row_parts(log, block, read_schema=columns.schema, columns=columns.names, part_bytes=columns.part_bytes)
        for rows in parts:
            yield _row_records(rows, block, columns, arrow)


def _row_records(rows: pa.Table, block: LogBlock, columns: LogColumns, arrow: pa.Schema) -> LogRecords:
    keys = _checked_keys(to_array(record_keys(rows, columns.key)), block)
    ordering = None if columns.ordering is None else to_array(find_column(rows, columns.ordering))
    table = pa.table(rows.columns, schema=arrow)
    return LogRecords(keys, table, np.zeros(rows.num_rows, np.bool_), ordering)


def _delete_records(deletes: Deletes, block: LogBlock, columns: LogColumns, arrow: pa.Schema) -> Iterator[LogRecords]:
    """Deletes part by part: beside its key each has as many nulls as there are columns."""
    keys = _checked_keys(deletes.keys, block)
    values = None if columns.ordering is None else find_column(arrow.empty_table(), columns.ordering)
    ordering = None if values is None else to_array(deletes.ordering(values.type))
    at_once = max(_FEWEST_DELETES, columns.part_bytes // (_NULL_BYTES * len(arrow)))
    for at in range(0, len(keys), at_once):
        some = keys.slice(at, at_once)
        blank = pa.table([pa.nulls(len(some), field.type) for field in arrow], schema=arrow)
        its = None if ordering is None else ordering.slice(at, at_once)
        yield LogRecords(some, blank, np.ones(len(some), np.bool_), its)


def _checked_keys(keys: pa.Array, block: LogBlock) -> pa.Array:
    if keys.null_count:
        raise CorruptFile(f"{block.place}: {keys.null_count} of {len(keys)} records have no record key")
    return keys

"""What a slice's log says about each key, within a limit of memory.

Records are folded as they come, so that memory follows the keys there are, not the length of the log. Where the rows of
these keys alone outgrow the limit, records are dealt out by a hash of their key to Arrow IPC files in the spill folder,
in the order in which they come; each of them is folded by itself, and the rows that come out lie in one mapped file. Keys
and delete marks stay in memory, as those of incoming rows do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.formats.murmur import murmur
from penstock.formats.parquet import ROW_GROUP_ROWS
from penstock.merge.kernels.fold import LogRecords, fold_log
from penstock.merge.kernels.gather import Flags, Positions, take_from_tables, take_rows, to_array
from penstock.merge.kernels.marks import FRESH
from penstock.merge.merger import Merger
from penstock.storage.spill import SpillFile

_KEY, _EMPTY, _ORDERING, _FRESH = "_penstock_key", "_penstock_empty", "_penstock_ordering", "_penstock_is_fresh"
_BUCKETS = 64


@dataclass(frozen=True)
class FoldSettings:
    """How records of a log become one per key."""

    merger: Merger
    memory_bytes: int
    spill_folder: str
    #: What the ordering column is called, for messages.
    ordering: str = ""


@dataclass(frozen=True)
class FoldedLog:
    """One record per key: its row, or that the key is gone. Rows are numbered as the keys are."""

    keys: pa.Array
    empty: Flags
    fresh: Flags | None
    _tables: tuple[pa.Table, ...]

    @property
    def row_bytes(self) -> int:
        """What a row takes, on average."""
        return 1 + sum(table.nbytes for table in self._tables) // max(1, len(self.keys))

    def take(self, numbers: Positions) -> pa.Table:
        """Rows by their number; with `FRESH` beside them where it matters to any. Those of deleted keys are null."""
        rows = take_from_tables(self._tables, numbers)
        return rows if self.fresh is None else rows.append_column(FRESH, pa.array(self.fresh[numbers]))


def fold_records(records: Iterable[LogRecords], schema: pa.Schema, settings: FoldSettings) -> FoldedLog:
    """Fold a log, oldest records first.

    Args:
        schema: of the rows.
    """
    source = iter(records)
    with ExitStack() as files:
        folded, rest = _fold_in_memory(source, settings)
        if rest is None:
            whole = folded or _nothing(schema)
            return FoldedLog(whole.keys, whole.empty, whole.fresh, (whole.rows,))
        buckets = _Buckets(settings.spill_folder, files)
        for part in rest:
            buckets.add(part)
        return _joined((fold_all(its, settings) for its in buckets.read()), schema, settings, files)


def fold_all(records: Iterable[LogRecords], settings: FoldSettings) -> LogRecords | None:
    """One record per key, in memory; None if there were none."""
    coming, size = list[LogRecords](), 0
    for part in records:
        coming.append(part)
        size += _size(part)
        if size > settings.memory_bytes // 2:
            coming, size = [_fold(coming, settings)], 0
    return _fold(coming, settings) if coming else None


def _fold_in_memory(
    source: Iterator[LogRecords], settings: FoldSettings
) -> tuple[LogRecords | None, Iterator[LogRecords] | None]:
    """All records folded; or, once one per key is too much, what has come so far and what is still to come.

    Folding copies: half of the limit is what comes in, and half what comes out.
    """
    coming, size = list[LogRecords](), 0
    for part in source:
        coming.append(part)
        size += _size(part)
        if size > settings.memory_bytes // 2:
            coming = [_fold(coming, settings)]
            size = _size(coming[0])
            if size > settings.memory_bytes // 4:
                return None, chain(_emptied(coming), source)
    return (_fold(coming, settings) if coming else None), None


def _fold(parts: list[LogRecords], settings: FoldSettings) -> LogRecords:
    return fold_log(settings.merger, _concat(parts), settings.ordering)


def _concat(parts: list[LogRecords]) -> LogRecords:
    if len(parts) == 1:
        return parts[0]
    fresh = None
    if any(part.fresh is not None for part in parts):
        fresh = np.concatenate([np.zeros(len(p.keys), np.bool_) if p.fresh is None else p.fresh for p in parts])
    return LogRecords(
        keys=to_array(pa.chunked_array([part.keys for part in _one_kind(parts)])),
        rows=pa.concat_tables([part.rows for part in parts]),
        empty=np.concatenate([part.empty for part in parts]),
        ordering=None if parts[0].ordering is None else to_array(pa.chunked_array([part.ordering for part in parts])),
        fresh=fresh,
    )


def _one_kind(parts: list[LogRecords]) -> list[LogRecords]:
    """Keys beyond what 32-bit offsets reach became large texts; then all are."""
    if len({part.keys.type for part in parts}) == 1:
        return parts
    return [replace(part, keys=part.keys.cast(pa.large_string())) for part in parts]


def _size(records: LogRecords) -> int:
    return int(records.rows.nbytes + records.keys.nbytes)


def _nothing(schema: pa.Schema) -> LogRecords:
    return LogRecords(pa.array([], pa.string()), schema.empty_table(), np.zeros(0, np.bool_))


def _emptied(parts: list[LogRecords]) -> Iterator[LogRecords]:
    """The parts, each let go of as it is handed on."""
    while parts:
        yield parts.pop(0)


class _Buckets:
    """Records in files by a hash of their key, each key's in the order in which they came."""

    def __init__(self, folder: str, files: ExitStack) -> None:
        self._files = [_open_spill_file(folder, files) for _ in range(_BUCKETS)]

    def add(self, records: LogRecords) -> None:
        of = murmur(records.keys) % _BUCKETS
        order = np.argsort(of, kind="stable")
        bounds = np.searchsorted(of[order], np.arange(_BUCKETS + 1))
        table = _as_table(records)
        for bucket, file in enumerate(self._files):
            at = order[bounds[bucket] : bounds[bucket + 1]]
            if len(at):
                file.write(take_rows(table, at))

    def read(self) -> Iterator[Iterator[LogRecords]]:
        """The records of each bucket in turn."""
        for file in self._files:
            yield (_of_table(table) for table in file.read())


def _joined(buckets: Iterable[LogRecords | None], schema: pa.Schema, settings: FoldSettings, files: ExitStack) -> FoldedLog:
    """The folded buckets behind one another, their rows in a file."""
    rows, held = _open_spill_file(settings.spill_folder, files), list[LogRecords]()
    for folded in buckets:
        if folded is None:
            continue
        for at in range(0, folded.rows.num_rows, ROW_GROUP_ROWS):
            rows.write(folded.rows.slice(at, ROW_GROUP_ROWS))
        held.append(replace(folded, rows=folded.rows.select([]), ordering=None))
    whole = _concat(held) if held else _nothing(schema)
    return FoldedLog(whole.keys, whole.empty, whole.fresh, tuple(rows.read()) or (whole.rows,))


def _open_spill_file(folder: str, files: ExitStack) -> SpillFile:
    """Open a spill file that is removed when the block of `files` ends."""
    file = SpillFile(folder)
    files.callback(file.close)
    return file


def _as_table(records: LogRecords) -> pa.Table:
    fresh = np.zeros(len(records.keys), np.bool_) if records.fresh is None else records.fresh
    table = records.rows.append_column(_KEY, records.keys.cast(pa.large_string())).append_column(_EMPTY, pa.array(records.empty))
    table = table.append_column(_FRESH, pa.array(fresh))
    return table if records.ordering is None else table.append_column(_ORDERING, records.ordering)


def _of_table(table: pa.Table) -> LogRecords:
    own = [name for name in (_KEY, _EMPTY, _FRESH, _ORDERING) if name in table.column_names]
    fresh = np.asarray(table[_FRESH], dtype=np.bool_)
    return LogRecords(
        keys=to_array(table[_KEY]),
        rows=table.drop_columns(own),
        empty=np.asarray(table[_EMPTY], dtype=np.bool_),
        ordering=to_array(table[_ORDERING]) if _ORDERING in own else None,
        fresh=fresh if fresh.any() else None,
    )

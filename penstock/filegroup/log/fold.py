"""Folding: combines the records of a slice's log to one record per key, within a limit of memory.

Records are folded as they are read, so that memory grows with the number of keys, not with the length of the log:

1. Records are collected up to half of the limit, then folded to one per key. The next records are folded together with these.
2. If the folded records alone exceed a quarter of the limit, all records are distributed by a hash of their key to spill files,
   in the order in which they come.
3. Each spill file is folded by itself. The folded rows of all spill files go to one memory-mapped file.

Keys, and for each key whether it is deleted, always stay in memory. The table's merger decides how records of a key are folded
(`merge/kernels/fold.py`).
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
from penstock.merge.kernels.tombstones import Tombstones, find_tombstones, fold_ordered_log
from penstock.merge.merger import Merger
from penstock.storage.spill import SpillFile

#: Columns of a spill file, next to those of the rows.
_KEY = "_penstock_key"
_EMPTY = "_penstock_empty"
_ORDERING = "_penstock_ordering"
_FRESH = "_penstock_is_fresh"
#: Spill files. A log may have about 64 times as many keys as fit into memory before one file alone exceeds the limit.
_BUCKETS = 64


@dataclass(frozen=True)
class FoldSettings:
    """How to fold the records of a log to one per key: with which merger, how much memory, and in which spill folder.

    `ordering`, the name of the ordering column, is only used in error messages. `orders_deletes` says whether deletes are
    compared by ordering value.
    """

    merger: Merger
    memory_bytes: int
    spill_folder: str
    #: The name of the ordering column, for error messages.
    ordering: str = ""
    #: Whether deletes are compared by ordering value (`penstock.deletes.follow.ordering`).
    orders_deletes: bool = False


@dataclass(frozen=True)
class FoldedLog:
    """A log folded (combined) to one record per key, a row or a delete.

    Element n of `keys` and element n of `empty` belong to the same key. `empty` is true if the key is deleted. `take` returns
    rows. If deletes are compared by ordering value, `tombstones` holds the deletes, and finds the base rows that they remove.
    Otherwise `tombstones` is None, and a key removes its base row if `empty` is true.
    """

    keys: pa.Array
    #: A mask over the keys, true where the key is deleted.
    empty: Flags
    #: A mask over the rows, true where a delete in the log came before the row: it takes no value from the base row. None: none.
    fresh: Flags | None
    #: The rows, in memory or mapped.
    _tables: tuple[pa.Table, ...]
    #: How many rows of the log were folded; deletes are not counted.
    record_count: int = 0
    #: The deletes that decide about base rows by ordering value; None: a key removes its base row if `empty` is true.
    tombstones: Tombstones | None = None
    #: The position in the tables of each key's row; None: row n is that of key n.
    _row_numbers: Positions | None = None

    @property
    def row_bytes(self) -> int:
        """The mean size of a row in memory, in bytes, at least 1."""
        return 1 + sum(table.nbytes for table in self._tables) // max(1, len(self.keys))

    def take(self, numbers: Positions) -> pa.Table:
        """Return the rows of the keys at the positions `numbers` of `keys`. The row of a deleted key is all null.

        If a row of the log follows a delete of its key, the result has a column `FRESH`: true for rows that take no value from
        the base row.
        """
        rows = take_from_tables(self._tables, numbers if self._row_numbers is None else self._row_numbers[numbers])
        return rows if self.fresh is None else rows.append_column(FRESH, pa.array(self.fresh[numbers]))


def fold_records(records: Iterable[LogRecords], schema: pa.Schema, settings: FoldSettings) -> FoldedLog:
    """Fold the records of a log to one record per key, with spill files if they exceed the memory limit.

    Args:
        records: the records of the log, oldest first.
        schema: the columns of the rows.
    """
    counted = _CountedRecords(records)
    with ExitStack() as files:
        folded, rest = _fold_in_memory(iter(counted), settings)
        if rest is None:
            whole = folded or _no_records(schema)
            return replace(_make_folded_log(whole, (whole.rows,), settings), record_count=counted.row_count)
        buckets = _Buckets(settings.spill_folder, files)
        for part in rest:
            buckets.add(part)
        return replace(_fold_buckets(buckets, schema, settings, files), record_count=counted.row_count)


def _make_folded_log(records: LogRecords, tables: tuple[pa.Table, ...], settings: FoldSettings) -> FoldedLog:
    """Return records that are combined to one per key as a `FoldedLog`.

    Args:
        records: the combined records. With `settings.orders_deletes` a key may have tombstones (deletes) besides its row.
        tables: the rows of the records, in memory or mapped from a file.
    """
    if not settings.orders_deletes or records.ordering is None:
        return FoldedLog(records.keys, records.empty, records.fresh, tables)
    one_per_key, numbers, tombstones = find_tombstones(records)
    folded = FoldedLog(one_per_key.keys, one_per_key.empty, one_per_key.fresh, tables)
    return replace(folded, tombstones=tombstones, _row_numbers=numbers)


class _CountedRecords:
    """Passes on the records of a log, and counts the rows among them in `row_count`. Deletes are not counted."""

    def __init__(self, records: Iterable[LogRecords]) -> None:
        self._records = records
        self.row_count = 0

    def __iter__(self) -> Iterator[LogRecords]:
        for part in self._records:
            self.row_count += int((~part.empty).sum())
            yield part


def _fold_in_memory(
    records: Iterator[LogRecords], settings: FoldSettings
) -> tuple[LogRecords | None, Iterator[LogRecords] | None]:
    """Fold records in memory: combine them to one per key. Return (folded records, None), or (None, all records).

    The second form is returned if they need spill files, because they exceed a quarter of the memory limit after folding. It
    yields the records read so far, folded, followed by the unread ones. Both results are None if there are no records.

    Folding copies, so the records are in memory twice for a moment. That is why they are folded when they reach half of the
    limit, and may take a quarter afterwards.
    """
    parts: list[LogRecords] = []
    size = 0
    for part in records:
        parts.append(part)
        size += _size_of(part)
        if size > settings.memory_bytes // 2:
            parts = [_fold(parts, settings)]
            size = _size_of(parts[0])
            if size > settings.memory_bytes // 4:
                return None, chain(_drain(parts), records)
    return (_fold(parts, settings) if parts else None), None


def _fold_bucket(records: Iterable[LogRecords], settings: FoldSettings) -> LogRecords | None:
    """Fold the records of one spill file in memory to one record per key; return None if there are no records."""
    parts: list[LogRecords] = []
    size = 0
    for part in records:
        parts.append(part)
        size += _size_of(part)
        if size > settings.memory_bytes // 2:
            parts = [_fold(parts, settings)]
            size = 0  # counts what comes since: a bucket is not split again, even if its folded records exceed the limit
    return _fold(parts, settings) if parts else None


def _fold(parts: list[LogRecords], settings: FoldSettings) -> LogRecords:
    """Concatenate parts of a log's records, oldest first, and fold (combine) the records of each key to one."""
    fold = fold_ordered_log if settings.orders_deletes else fold_log
    return fold(settings.merger, _concat_records(parts), settings.ordering)


def _concat_records(parts: list[LogRecords]) -> LogRecords:
    """Concatenate parts of a log's records, in their order."""
    if len(parts) == 1:
        return parts[0]
    fresh = None
    if any(part.fresh is not None for part in parts):
        fresh = np.concatenate([_fresh_flags(part) for part in parts])
    ordering = None
    if parts[0].ordering is not None:
        ordering = to_array(pa.chunked_array([part.ordering for part in parts]))
    return LogRecords(
        keys=to_array(pa.chunked_array(_keys_of_one_type(parts))),
        rows=pa.concat_tables([part.rows for part in parts]),
        empty=np.concatenate([part.empty for part in parts]),
        ordering=ordering,
        fresh=fresh,
    )


def _fresh_flags(records: LogRecords) -> Flags:
    """Return the mask `records.fresh`, true where a row must take no value from the base row; all false if `fresh` is None."""
    return np.zeros(len(records.keys), np.bool_) if records.fresh is None else records.fresh


def _keys_of_one_type(parts: list[LogRecords]) -> list[pa.Array]:
    """Return the keys of each part, all in one Arrow type: large strings if the types of the parts differ."""
    if len({part.keys.type for part in parts}) == 1:
        return [part.keys for part in parts]
    return [part.keys.cast(pa.large_string()) for part in parts]


def _size_of(records: LogRecords) -> int:
    """Return the size of the rows and keys in memory, in bytes."""
    return int(records.rows.nbytes + records.keys.nbytes)


def _no_records(schema: pa.Schema) -> LogRecords:
    """Return a log without records, whose rows have the columns of `schema`."""
    return LogRecords(pa.array([], pa.string()), schema.empty_table(), np.zeros(0, np.bool_))


def _drain(parts: list[LogRecords]) -> Iterator[LogRecords]:
    """Yield the parts, and remove each part from the list first. So its memory is freed as soon as it is in a spill file."""
    while parts:
        yield parts.pop(0)


class _Buckets:
    """The spill files: a hash of a record's key chooses its file. So the records of one key are in one file, in their order."""

    def __init__(self, folder: str, files: ExitStack) -> None:
        self._files = [_open_spill_file(folder, files) for _ in range(_BUCKETS)]

    def add(self, records: LogRecords) -> None:
        """Write each record to the spill file of its key."""
        bucket_of_record = murmur(records.keys) % _BUCKETS
        order = np.argsort(bucket_of_record, kind="stable")  # stable: a later record of a key must stay behind the earlier
        bounds = np.searchsorted(bucket_of_record[order], np.arange(_BUCKETS + 1))
        table = _to_table(records)
        for bucket, file in enumerate(self._files):
            positions = order[bounds[bucket] : bounds[bucket + 1]]
            if len(positions):
                file.write(take_rows(table, positions))

    def read(self) -> Iterator[Iterator[LogRecords]]:
        """Yield, for each spill file, an iterator over its records."""
        for file in self._files:
            yield (_from_table(table) for table in file.read())


def _fold_buckets(buckets: _Buckets, schema: pa.Schema, settings: FoldSettings, files: ExitStack) -> FoldedLog:
    """Fold the spill files one by one, and return the results as one folded log, whose rows are in a memory-mapped file."""
    rows = _open_spill_file(settings.spill_folder, files)
    without_rows: list[LogRecords] = []
    for records in buckets.read():
        folded = _fold_bucket(records, settings)
        if folded is None:
            continue
        for start in range(0, folded.rows.num_rows, ROW_GROUP_ROWS):
            rows.write(folded.rows.slice(start, ROW_GROUP_ROWS))
        ordering = folded.ordering if settings.orders_deletes else None
        without_rows.append(replace(folded, rows=folded.rows.select([]), ordering=ordering))
    whole = _concat_records(without_rows) if without_rows else _no_records(schema)
    return _make_folded_log(whole, tuple(rows.read()) or (whole.rows,), settings)


def _open_spill_file(folder: str, files: ExitStack) -> SpillFile:
    """Open a spill file that is deleted when `files` is closed."""
    file = SpillFile(folder)
    files.callback(file.close)
    return file


def _to_table(records: LogRecords) -> pa.Table:
    """Return log records as one table for a spill file: the row columns, then key, `empty`, `fresh` and ordering value."""
    table = records.rows.append_column(_KEY, records.keys.cast(pa.large_string()))
    table = table.append_column(_EMPTY, pa.array(records.empty))
    table = table.append_column(_FRESH, pa.array(_fresh_flags(records)))
    return table if records.ordering is None else table.append_column(_ORDERING, records.ordering)


def _from_table(table: pa.Table) -> LogRecords:
    """Return the log records in a table of a spill file, the reverse of `_to_table`."""
    added = [name for name in (_KEY, _EMPTY, _FRESH, _ORDERING) if name in table.column_names]
    fresh = np.asarray(table[_FRESH], dtype=np.bool_)
    return LogRecords(
        keys=to_array(table[_KEY]),
        rows=table.drop_columns(added),
        empty=np.asarray(table[_EMPTY], dtype=np.bool_),
        ordering=to_array(table[_ORDERING]) if _ORDERING in added else None,
        fresh=fresh if fresh.any() else None,
    )

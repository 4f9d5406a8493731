"""The rows of one file slice: its base file, row group by row group, merged with its log.

Snapshot queries, compaction and clustering read slices through this module. `log/scan.py` finds the log's blocks, `log/fold.py`
combines (folds) their records to one per key, and the table's merger decides between a base row and a log record. Mergers and row
order are those of a copy-on-write upsert: base rows keep their places, and rows that only the log has follow. A key in a delete
block removes its row whatever the ordering values are, unless `MergeRules.orders_deletes` is set. Each row keeps its meta
columns. In memory are one or two row groups, and the log's records, one per key, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.filegroup.base_read import open_base_file, read_ahead, read_row_groups
from penstock.filegroup.fill_meta_columns import KEY_COLUMN, record_keys
from penstock.filegroup.log.committed_times import CommittedTimes
from penstock.filegroup.log.fold import FoldedLog, FoldSettings, fold_records
from penstock.filegroup.log.scan import (
    LogColumns,
    LogScan,
    ScanCounts,
    read_records,
    scan_slice,
    touched_positions,
)
from penstock.filegroup.model import FileSlice
from penstock.formats.log.large_block import PART_BYTES
from penstock.formats.parquet import ROW_GROUP_ROWS
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.by_key import find_positions
from penstock.merge.kernels.event_time import EventTimeSpan, find_event_times
from penstock.merge.kernels.gather import Flags, Positions, find_column, find_top_column, take_rows
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Choice, is_changed
from penstock.schema import avro_to_arrow
from penstock.schema.avro import AvroRecord
from penstock.storage import Storage

#: Rows yielded at once, however large they are.
_FEWEST_ROWS = 100
#: Bytes of a block read at once, however small the limit of memory is.
_FEWEST_BYTES = 64 * 1024


@dataclass(frozen=True)
class MergeRules:
    """How to merge the base file and the log of a file slice. The same for all slices of a table. Pickled to the workers.

    `ordering` is the column that says which of two log records of a key is newer; None: the later record is. `key` is the column
    that holds record keys. `skip_merge`: base rows and log rows are returned unmerged. `orders_deletes`: deletes are compared by
    ordering value.
    """

    merger: Merger
    #: The table's Avro schema with the meta columns in front.
    schema: AvroRecord
    times: CommittedTimes
    #: The column that says which of two log records is newer; None: the later record is.
    ordering: str | None
    memory_bytes: int
    spill_folder: str
    #: Whether a query returns base rows and log rows side by side, unmerged (`skip_merge`).
    skip_merge: bool = False
    #: The column that holds record keys: a data column, if the table does not fill its meta columns.
    key: str = KEY_COLUMN
    #: Whether deletes are compared by ordering value (`penstock.deletes.follow.ordering`).
    orders_deletes: bool = False

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the merged rows, meta columns first."""
        return avro_to_arrow(self.schema)

    @property
    def lets_logs_win(self) -> bool:
        """Whether a log record always replaces the base row with the same key, so that the base row need not be read."""
        compares = self.orders_deletes or self.merger.needs
        return not (self.skip_merge or compares or self.merger.builds or self.merger.folds)


@dataclass
class MergeCounts:
    """Counts of the rows and records that one slice's merge read and wrote, for the write stats of a compaction.

    `read_merged_rows` adds to the counts while rows are read.
    """

    updates: int = 0
    deletes: int = 0
    inserts: int = 0
    base_rows: int = 0
    #: Keys that the log changes or deletes.
    keys: int = 0
    #: Rows in those blocks of the log that count; deletes are not included.
    log_records: int = 0
    scan: ScanCounts = field(default_factory=ScanCounts)
    #: The column with event times, if the caller asks for them, and the times of log rows that replace or delete base rows.
    event_time: str | None = None
    times: EventTimeSpan = field(default_factory=EventTimeSpan)

    def note_times(self, rows: pa.Table) -> None:
        """Widen `times`, the range of event times, so that it includes those of these rows.

        Does nothing if `event_time`, the name of the column with event times, is None.
        """
        if self.event_time is not None:
            self.times = self.times.extend(find_event_times(rows, self.event_time))


def read_merged_rows(
    storage: Storage,
    file_slice: FileSlice,
    rules: MergeRules,
    columns: Sequence[str] | None = None,
    log_scan: LogScan | None = None,
    *,
    counts: MergeCounts | None = None,
    base_positions: Positions | None = None,
) -> Iterator[pa.Table]:
    """Yield the merged rows of a slice: at most one table per row group of the base file, then tables of rows only the log has.

    Args:
        columns: the columns to return, in this order; None: all columns of the schema.
        log_scan: the scan of the slice's log files, if their block headers were read before; None: they are read now.
        counts: counts of the rows and records, updated as the result is iterated; None: nothing is counted.
        base_positions: the positions of the base file's rows to read, ascending; None: all.

    Raises:
        CorruptFile: a file is missing or damaged.
        SchemaError: a stored column cannot be cast to its current type, or ordering values cannot be compared.
    """
    counts = counts if counts is not None else MergeCounts()
    wanted = list(columns) if columns is not None else rules.arrow.names
    names = columns_to_read(rules, wanted)
    log = fold_slice_log(storage, file_slice, rules, names, log_scan, counts)
    counts.keys = len(log.keys)
    is_met = np.zeros(len(log.keys), np.bool_)  # keys of the log that a base row has
    if file_slice.base_file is not None:
        path = file_slice.base_file.path
        file = open_base_file(storage, path)
        for old in read_ahead(read_row_groups(file, path, rules.arrow, names, base_positions)):
            counts.base_rows += old.num_rows
            rows = old if rules.skip_merge else _merge_row_group(old, log, rules, is_met, counts)
            if rows.num_rows:
                yield rows.select(wanted)
            del old, rows  # frees the row group before waiting for the next one
    for rows in _read_new_rows(log, rules, np.flatnonzero(~(is_met | log.empty)), counts):
        yield rows.select(wanted)


def read_log_rows(
    storage: Storage, file_slice: FileSlice, rules: MergeRules, columns: Sequence[str], log_scan: LogScan | None = None
) -> Iterator[pa.Table]:
    """Yield one row per key of the log, without deleted keys. The base file is not read.

    These rows are what a query returns for these keys only if a log record always replaces the base row
    (`MergeRules.lets_logs_win`).

    Args:
        columns: the columns to return, in this order.
        log_scan: the scan of the slice's log files, if their block headers were read before; None: they are read now.
    """
    counts = MergeCounts()
    log = fold_slice_log(storage, file_slice, rules, columns_to_read(rules, columns), log_scan, counts)
    for rows in _read_new_rows(log, rules, np.flatnonzero(~log.empty), counts):
        yield rows.select(list(columns))


def read_touched_rows(
    storage: Storage, file_slice: FileSlice, rules: MergeRules, columns: Sequence[str], log_scan: LogScan | None = None
) -> Iterator[pa.Table]:
    """Yield the merged rows of the keys that the log holds. Of the base file, read only the rows whose positions the log names.

    If a log block does not name the positions of its rows in the base file, all rows of the slice are yielded. To read the other
    rows separately, check first that `touched_positions` of the same scan is not None.

    Args:
        columns: the columns to return, in this order.
        log_scan: the scan of the slice's log files, if their block headers were read before; None: they are read now.
    """
    scan = scan_slice(storage, file_slice, rules.times) if log_scan is None else log_scan
    positions = touched_positions(file_slice, scan)
    base_positions = None if positions is None else np.unique(positions)
    return read_merged_rows(storage, file_slice, rules, columns, scan, base_positions=base_positions)


def fold_slice_log(
    storage: Storage,
    file_slice: FileSlice,
    rules: MergeRules,
    columns: Sequence[str],
    log_scan: LogScan | None = None,
    counts: MergeCounts | None = None,
) -> FoldedLog:
    """Read the slice's log and combine the records of each key to one record: a row, or a delete.

    Args:
        columns: the columns of the log to read.
        log_scan: the scan of the slice's log files, if their block headers were read before; None: they are read now.
        counts: the function sets its fields `scan` and `log_records`; None: nothing is counted.
    """
    counts = counts if counts is not None else MergeCounts()
    scan = scan_slice(storage, file_slice, rules.times) if log_scan is None else log_scan
    counts.scan = scan.counts
    # Parts of a block stay small next to the limit, since folded records take half of it.
    part_bytes = max(_FEWEST_BYTES, min(PART_BYTES, rules.memory_bytes // 4))
    log_columns = LogColumns(rules.schema, tuple(columns), rules.ordering, rules.key, part_bytes)
    settings = FoldSettings(rules.merger, rules.memory_bytes, rules.spill_folder, rules.ordering or "", rules.orders_deletes)
    log = fold_records(read_records(storage, scan.blocks, log_columns), log_columns.arrow, settings)
    counts.log_records = log.record_count
    return log


def columns_to_read(rules: MergeRules, wanted: Sequence[str]) -> list[str]:
    """Return the columns that a merge must read to return the columns `wanted`.

    Besides `wanted` these are the record key, the ordering column and the columns that the merger compares. If the merger builds
    new rows, they are all columns.
    """
    names = rules.arrow.names
    if rules.merger.builds or rules.merger.folds:
        return names
    paths = [*rules.merger.needs, *rules.merger.reads, DELETE_FLAG]
    if rules.ordering:
        paths.append(rules.ordering)
    needed = {rules.key, *wanted, *(find_top_column(path, names) for path in paths)}
    return [name for name in names if name in needed]


def _merge_row_group(old: pa.Table, log: FoldedLog, rules: MergeRules, is_met: Flags, counts: MergeCounts) -> pa.Table:
    """Return a row group of the base file merged with the log. Rows whose keys are not in the log stay unchanged.

    Args:
        old: the rows of the row group.
        log: the log, combined to one record per key.
        is_met: a mask over the keys of the log, true where a base row has the key. The function sets it for keys of this row
            group.
        counts: the function adds updates and deletes to it.
    """
    positions = find_positions(record_keys(old, rules.key), log.keys)
    hits = np.flatnonzero(positions >= 0)  # rows of the row group whose key the log knows
    if not len(hits):
        return old
    numbers = positions[hits]  # of these keys in the log
    is_met[numbers] = True
    is_kept = np.ones(old.num_rows, np.bool_)
    is_empty = log.empty[numbers]
    is_removed = _find_removed(old, log, rules, hits, numbers)
    is_kept[hits[is_removed & is_empty]] = False
    is_merged = ~is_removed & ~is_empty
    order, changed = _merge_hits(old, log, rules.merger, hits[is_merged], numbers[is_merged], is_kept, counts)
    is_replaced = is_removed & ~is_empty
    if is_replaced.any():
        replaced = _replace_hits(log, rules.merger, hits[is_replaced], numbers[is_replaced], is_kept, counts)
        first = old.num_rows + (0 if changed is None else changed.num_rows)
        order[hits[is_replaced][is_kept[hits[is_replaced]]]] = first + np.arange(replaced.num_rows)
        tables = [replaced] if changed is None else [changed, pa.table(replaced.columns, schema=changed.schema)]
        changed = pa.concat_tables(tables)
    counts.deletes += old.num_rows - int(is_kept.sum())
    if changed is None:
        return old.filter(pa.array(is_kept))
    counts.updates += changed.num_rows
    return take_rows(pa.concat_tables([old, pa.table(changed.columns, schema=old.schema)]), order[is_kept])


def _find_removed(old: pa.Table, log: FoldedLog, rules: MergeRules, hits: Positions, numbers: Positions) -> Flags:
    """Return a mask over `hits`, true where a delete in the log removes the base row.

    By default a base row is removed if the log's record of its key is a delete, whatever the ordering values are. If deletes are
    compared by ordering value, a base row with a greater value than the delete stays. The log may then hold a row for the key of
    a removed base row, which was inserted after the delete.

    Args:
        hits: the positions in `old` of base rows whose key the log has.
        numbers: the positions of these keys in `log.keys`.
    """
    if log.tombstones is None:
        return log.empty[numbers]
    assert rules.ordering is not None
    name = find_top_column(rules.ordering, old.column_names)
    stored = find_column(take_rows(old.select([name]), hits), rules.ordering) if name in old.column_names else None
    return log.tombstones.remove(numbers, stored, rules.ordering)


def _replace_hits(
    log: FoldedLog, merger: Merger, hits: Positions, numbers: Positions, is_kept: Flags, counts: MergeCounts
) -> pa.Table:
    """Return the log's rows for keys whose base rows a delete in the log removes. They take no value from the base rows.

    Args:
        hits: the positions of these base rows in their row group.
        numbers: the positions of their keys in `log.keys`.
        is_kept: a mask over the base rows. The function sets it to False for rows that the merger does not insert.
        counts: the function adds event times to it.
    """
    new = log.take(numbers)
    counts.note_times(new)
    is_inserted, rows = merger.insert(new)
    is_kept[hits[~is_inserted]] = False
    return rows


def _merge_hits(
    old: pa.Table,
    log: FoldedLog,
    merger: Merger,
    hits: Positions,
    numbers: Positions,
    is_kept: Flags,
    counts: MergeCounts,
) -> tuple[Positions, pa.Table | None]:
    """Merge base rows with the log's rows of the same keys; return (order, changed rows), or (order, None) if none changed.

    `order` has one position per base row: the base row's own position if it stays, or the number of base rows plus the position
    of its new version among the changed rows. So base rows keep their order.

    Args:
        old: the rows of a row group of the base file.
        hits: the positions in `old` of base rows whose key the log has.
        numbers: the positions of these keys in `log.keys`.
        is_kept: a mask over the base rows. The function sets it to False for rows that the merger deletes.
        counts: the function adds event times to it.
    """
    order = np.arange(old.num_rows)
    if not len(hits):
        return order, None
    new = log.take(numbers)
    merge = merger.merge(old, hits, new)
    choices = merge.choices
    is_kept[hits[choices == Choice.DELETE]] = False
    counts.note_times(new.filter(pa.array(choices != Choice.KEEP_OLD)))
    changed = hits[is_changed(choices)]
    if not len(changed):
        return order, None
    order[changed] = old.num_rows + np.arange(len(changed))
    return order, merge.rows(choices)


def _read_new_rows(log: FoldedLog, rules: MergeRules, numbers: Positions, counts: MergeCounts) -> Iterator[pa.Table]:
    """Yield the log's rows for keys that no base row has, in tables that are small compared with the memory limit.

    Args:
        log: the log, combined to one record per key.
        numbers: the positions of these keys in `log.keys`; none of the keys is deleted.
        counts: the function adds the inserted rows to it.
    """
    part_rows = min(ROW_GROUP_ROWS, max(_FEWEST_ROWS, rules.memory_bytes // 4 // log.row_bytes))
    for start in range(0, len(numbers), part_rows):
        _, rows = rules.merger.insert(log.take(numbers[start : start + part_rows]))
        counts.inserts += rows.num_rows
        if rows.num_rows:
            yield rows

"""Folding: combine the rows of each key to one row, in an incoming batch (Hudi's pre-combining) or in the records of log files.

1. The rows of each key are placed next to one another, in the order in which they came.
2. In a log, delete entries take effect: a delete entry drops the earlier rows of its key, unless one is newer by ordering value.
3. `Merger.fold` combines the remaining rows of each key.

Rows of a batch whose key occurs once are not touched. A merger that only picks the newest row (`Merger.folds` is False) does not
need `fold_batch`: `by_key.pick_newest` returns the positions of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Flags, Positions, find_top_column, have_same_values, take_rows
from penstock.merge.kernels.ordering import rank_values
from penstock.merge.kernels.runs import Folded, Runs, find_newest
from penstock.merge.merger import Merger


@dataclass(frozen=True)
class FoldedBatch:
    """The result of combining (folding) the rows of each key of an incoming batch to one row.

    `rows` has the position of one incoming row per key. If the key has several rows, a combined row replaces the incoming row at
    that position. `changed` has the positions of these replaced rows, and `values` the combined rows. `fresh` and `gone` are
    masks over `values`; None: all false. `fresh` marks rows that take no value from the stored row, `gone` marks keys to delete.
    """

    #: The position of one incoming row per key, ascending. Of a key with several rows: the last row, or the last one that has
    #: the folded row's values in the `placed_by` columns.
    rows: Positions
    #: The positions, ascending, of those rows that stand for a folded key.
    changed: Positions
    #: The folded row for each position of `changed`.
    values: pa.Table
    #: A mask over `changed`: true where the folded row must take no value from the stored row; None: all false.
    fresh: Flags | None = None
    #: A mask over `changed`: true where the key is to be deleted; None: all false.
    gone: Flags | None = None

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return one row per key: the incoming row, or the combined row if the key had several incoming rows.

        Args:
            rows: the incoming rows of the batch, before they were combined.
        """
        return self.values_of(rows, self.rows)

    def values_of(self, rows: pa.Table, numbers: Positions) -> pa.Table:
        """Return the rows at the positions `numbers`. If a row's key has several incoming rows, return the combined row instead.

        Args:
            rows: the incoming rows of the batch, before they were combined.
            numbers: positions in `rows`.
        """
        at = np.searchsorted(self.changed, numbers)
        # The appended -1 stands for "behind the last changed row", where searchsorted may point.
        is_changed = np.append(self.changed, -1)[at] == numbers
        return take_rows(pa.concat_tables([rows, self.values]), np.where(is_changed, rows.num_rows + at, numbers))


def fold_batch(
    merger: Merger,
    rows: pa.Table,
    keys: pa.Array,
    ordering: pa.Array | pa.ChunkedArray | None = None,
    column: str = "",
    arrival: Positions | None = None,
    placed_by: Sequence[str] = (),
) -> FoldedBatch:
    """Combine the rows of each key of an incoming batch to one row, with `merger`.

    Args:
        keys: the record key of each row.
        ordering: the ordering value of each row; None: rows are combined in the order in which they came.
        column: the name of the ordering column, for error messages.
        arrival: a number per row, greater for rows that came later; None: the rows are in the order in which they came.
        placed_by: columns that decide to which partition or file group a row goes. The combined row goes where the last incoming
            row with the same values in them goes. Empty: the rows of a key all go to one place.
    """
    if pc.count_distinct(keys).as_py() == len(keys):
        return FoldedBatch(np.arange(len(keys)), np.empty(0, np.int64), rows.slice(0, 0))
    order, lengths = group_by_key(keys, arrival)
    ends = np.cumsum(lengths) - 1
    members = order[np.repeat(lengths > 1, lengths)]
    run_lengths = lengths[lengths > 1]
    runs = Runs(
        take_rows(rows, members),
        np.cumsum(run_lengths) - run_lengths,
        None if ordering is None else rank_values(ordering.take(pa.array(members)), column),
    )
    folded = merger.fold(runs)
    changed = members[_find_placed_rows(runs, folded.rows, placed_by)]
    ascending = np.argsort(changed)
    kept = np.sort(np.concatenate([order[ends[lengths == 1]], changed]))
    return FoldedBatch(
        rows=kept,
        changed=changed[ascending],
        values=take_rows(folded.rows, ascending),
        fresh=_reorder_flags(folded.fresh, ascending),
        gone=_reorder_flags(folded.gone, ascending),
    )


def _reorder_flags(flags: Flags | None, order: Positions) -> Flags | None:
    """Return the flags of the rows at the positions `order`, in this order; None if `flags` is None or no flag is true."""
    return None if flags is None or not flags.any() else flags[order]


def _find_placed_rows(runs: Runs, folded: pa.Table, columns: Sequence[str]) -> Positions:
    """Return for each run (the rows of one key) the position of the row that decides where the combined row is written.

    This is the run's last row that equals the combined row in `columns`. If there is none, or the rows have none of the columns,
    it is the run's last row.

    Args:
        folded: the combined rows, one per run.
        columns: the columns that decide to which partition or file group a row goes.
    """
    names = {find_top_column(path, folded.column_names) for path in columns} & set(folded.column_names)
    if not names:
        return runs.ends
    same = have_same_values(runs.rows, take_rows(folded.select(sorted(names)), runs.run_of), columns)
    at = np.maximum.reduceat(np.where(same, np.arange(len(same)), -1), runs.starts)
    return np.where(at < 0, runs.ends, at)


@dataclass(frozen=True)
class LogRecords:
    """Records of log files, in the order in which they were written. A record is a row or a delete entry.

    All fields have one element per record. `empty` is true for delete entries, whose row means nothing. `fresh` is true for a row
    that takes no value from the base file; None: all false. The result of `fold_log` has one record per key.
    """

    #: The record key of each record.
    keys: pa.Array
    #: One row per record; the rows of delete entries mean nothing.
    rows: pa.Table
    #: A mask over the records: true for delete entries, which hold no row.
    empty: Flags
    #: The ordering value of each record; None: the table has no ordering column. A delete entry without an ordering value
    #: deletes all earlier rows of its key.
    ordering: pa.Array | None = None
    #: A mask over the records: true where the row must take no value from the base file; None: all false.
    fresh: Flags | None = None


def fold_log(merger: Merger, records: LogRecords, column: str = "") -> LogRecords:
    """Combine the records of each key to one record: a row or a delete entry. Keys are ordered by their last record in `records`.

    A long log may be combined in several calls: put the result for the earlier records in front of the later records.

    Args:
        column: the name of the ordering column, for error messages.
    """
    ordering = None if merger.ignores_ordering else records.ordering
    order, lengths = group_by_key(records.keys, None)
    if len(lengths) == len(order) and not merger.folds:
        return replace(records, rows=records.rows.cast(make_nullable(records.rows.schema)), fresh=None)
    starts = np.cumsum(lengths) - lengths
    ends = starts + lengths - 1
    run_of = np.repeat(np.arange(len(lengths)), lengths)
    empty = records.empty[order]
    ranks = None if ordering is None else rank_values(ordering, column)[order]
    always = np.ones(len(order), np.bool_) if ordering is None else deletes_always(ordering)[order]
    firsts = _find_first_kept(starts, lengths, empty, ranks, always)
    gone = firsts > ends
    kept = (np.arange(len(order)) >= firsts[run_of]) & ~empty
    after_delete = (firsts > starts) & ~gone
    if records.fresh is not None and len(starts):
        # A row that an earlier fold found to be fresh stays fresh.
        after_delete |= np.logical_or.reduceat(records.fresh[order] & kept, starts)
    counts = np.bincount(run_of[kept], minlength=len(lengths))[~gone]
    kept_starts = np.cumsum(counts) - counts
    kept_ranks = None if ranks is None else ranks[kept]
    at = order[kept]
    last = order[ends]
    winners = at[find_newest(kept_starts, len(at), kept_ranks)]
    if not merger.folds:
        return _pick_records(records, last, gone, winners)
    folded = merger.fold(Runs(take_rows(records.rows, at), kept_starts, kept_ranks, True, after_delete[~gone]))
    return _build_records(records, last, gone, folded, winners)


def group_by_key(keys: pa.Array, arrival: Positions | None) -> tuple[Positions, Positions]:
    """Return the positions of the rows sorted by key and then by arrival, and the number of rows of each key.

    Args:
        arrival: a number per row, greater for rows that came later; None: the rows are in the order in which they came.
    """
    codes = keys.dictionary_encode()
    key_of_row = np.asarray(codes.indices, dtype=np.int64)
    order = np.argsort(key_of_row, kind="stable") if arrival is None else np.lexsort((arrival, key_of_row))
    return order, np.bincount(key_of_row, minlength=len(codes.dictionary)).astype(np.int64)


def deletes_always(ordering: pa.Array) -> Flags:
    """Return a mask over log records. For a delete entry, true means that it deletes earlier rows in any case.

    Then the ordering values of the earlier rows do not matter. That is so if the delete entry has no ordering value, or the int 0
    that Hudi writes for a missing one. A long 0 is an ordinary value. The mask means nothing for rows.

    Args:
        ordering: the ordering value of each record.
    """
    without_value = np.asarray(ordering.is_null())
    if pa.types.is_int32(ordering.type):
        without_value = without_value | (np.asarray(ordering.fill_null(0)) == 0)
    return without_value


def _find_first_kept(starts: Positions, lengths: Positions, empty: Flags, ranks: Positions | None, always: Flags) -> Positions:
    """Return for each run the position of its first record that no delete entry deletes.

    A run is the records of one key, in the order in which they were written. If a delete entry deletes all rows of a run, the
    position is the one after the run. The loop handles the first record of all runs, then the second one, and so on.

    Args:
        starts: the position of the first record of each run.
        lengths: the number of records of each run.
        empty: true for records that are delete entries.
        ranks: numbers that compare like the ordering values of the records; None: the last record of a key wins.
        always: true for delete entries that delete earlier rows whatever their ordering values.
    """
    firsts = starts.copy()
    if not empty.any():
        return firsts
    no_row = np.iinfo(np.int64).min
    active = np.flatnonzero(np.logical_or.reduceat(empty, starts))
    greatest = np.full(len(active), no_row)
    for place in range(int(lengths[active].max())):
        has_more = lengths[active] > place
        active = active[has_more]
        greatest = greatest[has_more]
        at = starts[active] + place
        rank = np.zeros(len(at), np.int64) if ranks is None else ranks[at]
        deletes = empty[at] & (always[at] | (greatest <= rank))
        firsts[active[deletes]] = at[deletes] + 1
        # A delete entry that came too late leaves the greatest rank unchanged.
        greatest = np.where(deletes, no_row, np.where(empty[at], greatest, np.maximum(greatest, rank)))
    return firsts


def _pick_records(records: LogRecords, last: Positions, gone: Flags, winners: Positions) -> LogRecords:
    """Return one record per key: a delete entry if `gone` is true for the key, otherwise the key's newest row, unchanged.

    Keys are ordered by the positions of their last records.

    Args:
        last: the position of the last record of each key.
        gone: one flag per key, true if a delete entry deletes the key.
        winners: the position of the newest row of each key that is not gone.
    """
    at = last.copy()
    at[~gone] = winners  # the last record of a key that is gone is a delete entry
    order = np.argsort(last)
    chosen = pa.array(at[order])
    return LogRecords(
        keys=records.keys.take(chosen),
        rows=take_rows(records.rows.cast(make_nullable(records.rows.schema)), at[order]),
        empty=gone[order],
        ordering=None if records.ordering is None else records.ordering.take(chosen),
    )


def _build_records(records: LogRecords, last: Positions, gone: Flags, folded: Folded, winners: Positions) -> LogRecords:
    """Return one record per key: a delete entry if `gone` is true for the key, otherwise the row combined from the key's rows.

    Keys are ordered by the positions of their last records.

    Args:
        last: the position of the last record of each key.
        gone: one flag per key, true if a delete entry deletes the key.
        folded: the combined rows, one for each key that is not gone.
        winners: for each key that is not gone, the position of the record whose ordering value the combined row gets.
    """
    schema = make_nullable(folded.rows.schema)
    rows = folded.rows.cast(schema)
    if gone.any():
        # One row of nulls behind the folded rows stands for all delete entries.
        blank = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
        rows = pa.concat_tables([rows, blank])
    place = np.empty(len(last), np.int64)
    place[~gone] = np.arange(folded.rows.num_rows)
    place[gone] = folded.rows.num_rows
    ordered_by = last.copy()
    ordered_by[~gone] = winners
    fresh = np.zeros(len(last), np.bool_)
    if folded.fresh is not None:
        fresh[~gone] = folded.fresh
    empty = gone.copy()
    if folded.gone is not None:
        empty[~gone] = folded.gone
    order = np.argsort(last)
    return LogRecords(
        keys=records.keys.take(pa.array(last[order])),
        rows=take_rows(rows, place[order]),
        empty=empty[order],
        ordering=None if records.ordering is None else records.ordering.take(pa.array(ordered_by[order])),
        fresh=fresh[order] if fresh.any() else None,
    )


def make_nullable(schema: pa.Schema) -> pa.Schema:
    """Return the schema with every field nullable, because the row of a delete entry is all nulls."""
    return pa.schema([field.with_nullable(True) for field in schema])

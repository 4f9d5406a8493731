"""One row per key of a batch, and one per key of a log: pre-combining, for mergers of every kind.

1. Rows of one key are brought side by side, in the order in which they came.
2. In a log, delete entries take effect: what came before one is forgotten, unless it is newer by its ordering value.
3. The merger folds what is left (`Merger.fold`), or the row with the greatest ordering value stays.

Keys with a single row are not touched. A merger that only picks the newest row needs none of this for a batch:
`pair.newest_of_each` answers with positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Positions, are_alike, take_rows, top_column
from penstock.merge.kernels.pair import ranks
from penstock.merge.kernels.runs import Flags, Folded, Runs, newest
from penstock.merge.merger import Merger


@dataclass(frozen=True)
class Batch:
    """A batch with one row per key."""

    #: Rows that stand for their keys, ascending: of each key the last one that came, or that is placed like what they became.
    rows: Positions
    #: Those of them, ascending, whose values are others now, and these values.
    changed: Positions
    values: pa.Table
    #: Which of the changed rows must not take anything from what is stored; None: none.
    fresh: Flags | None = None
    #: Which of them are to be deleted; None: none.
    gone: Flags | None = None

    def apply(self, rows: pa.Table) -> pa.Table:
        """The batch's rows after folding, given those that came."""
        return self.values_of(rows, self.rows)

    def values_of(self, rows: pa.Table, numbers: Positions) -> pa.Table:
        """Some of them, by number."""
        at = np.searchsorted(self.changed, numbers)
        changed = np.append(self.changed, -1)[at] == numbers
        return take_rows(pa.concat_tables([rows, self.values]), np.where(changed, rows.num_rows + at, numbers))


def fold_batch(
    merger: Merger,
    rows: pa.Table,
    keys: pa.Array,
    ordering: pa.Array | pa.ChunkedArray | None = None,
    column: str = "",
    arrival: Positions | None = None,
    placed_by: Sequence[str] = (),
) -> Batch:
    """Fold the rows of each key of a batch into one.

    Args:
        column: what the ordering column is called, for the message.
        arrival: numbers that tell which row came later, where the rows do not stand in that order.
        placed_by: columns that say where rows go, if rows of one key may go to several places.
    """
    if pc.count_distinct(keys).as_py() == len(keys):
        return Batch(np.arange(len(keys)), np.empty(0, np.int64), rows.slice(0, 0))
    order, lengths = _side_by_side(keys, arrival)
    ends = np.cumsum(lengths) - 1
    several = np.repeat(lengths > 1, lengths)
    members, lengths_of_several = order[several], lengths[lengths > 1]
    runs = Runs(
        take_rows(rows, members),
        np.cumsum(lengths_of_several) - lengths_of_several,
        None if ordering is None else ranks(ordering.take(pa.array(members)), column),
    )
    folded = merger.fold(runs)
    changed = members[_standing(runs, folded.rows, placed_by)]
    back = np.argsort(changed)
    fresh, gone = (None if flags is None or not flags.any() else flags[back] for flags in (folded.fresh, folded.gone))
    standing = np.sort(np.concatenate([order[ends[lengths == 1]], changed]))
    return Batch(standing, changed[back], take_rows(folded.rows, back), fresh, gone)


def _standing(runs: Runs, folded: pa.Table, columns: Sequence[str]) -> Positions:
    """The last row of each run that has the folded row's values in these columns; the last one, if none has."""
    names = {top_column(path, folded.column_names) for path in columns} & set(folded.column_names)
    if not names:
        return runs.ends
    alike = are_alike(runs.rows, take_rows(folded.select(sorted(names)), runs.run_of), columns)
    at = np.maximum.reduceat(np.where(alike, np.arange(len(alike)), -1), runs.starts)
    return np.where(at < 0, runs.ends, at)


@dataclass(frozen=True)
class LogRecords:
    """Records of log files in the order in which they were written, or one per key of them."""

    keys: pa.Array
    #: Their rows; those of delete entries say nothing.
    rows: pa.Table
    #: Delete entries, which hold no row.
    empty: Flags
    #: Ordering values; None: no column has them. A delete entry without one deletes whatever came before it.
    ordering: pa.Array | None = None
    #: Rows that must not take anything from the base file; None: none.
    fresh: Flags | None = None


def fold_log(merger: Merger, records: LogRecords, column: str = "") -> LogRecords:
    """What the log says about each key: its row, or that it is gone. Keys come in the order of their last records.

    A log may be folded part by part, with what came out of the earlier part in front of the next one.
    """
    ordering = None if merger.ignores_ordering else records.ordering
    order, lengths = _side_by_side(records.keys, None)
    if len(lengths) == len(order) and not merger.folds:
        return replace(records, rows=records.rows.cast(_nullable(records.rows.schema)), fresh=None)
    starts = np.cumsum(lengths) - lengths
    run_of = np.repeat(np.arange(len(lengths)), lengths)
    empty = records.empty[order]
    rank = None if ordering is None else ranks(ordering, column)[order]
    always = np.ones(len(order), np.bool_) if ordering is None else _always_deletes(ordering)[order]
    firsts = _firsts(starts, lengths, empty, rank, always)
    gone = firsts > starts + lengths - 1
    kept = (np.arange(len(order)) >= firsts[run_of]) & ~empty
    after = (firsts > starts) & ~gone
    if records.fresh is not None:
        after |= np.logical_or.reduceat(records.fresh[order] & kept, starts) if len(starts) else after
    counts = np.bincount(run_of[kept], minlength=len(lengths))[~gone]
    at, last = order[kept], order[starts + lengths - 1]
    of_kept = None if rank is None else rank[kept]
    winners = at[newest(np.cumsum(counts) - counts, len(at), of_kept)]
    if not merger.folds:
        return _picked(records, last, gone, winners)
    folded = merger.fold(Runs(take_rows(records.rows, at), np.cumsum(counts) - counts, of_kept, True, after[~gone]))
    return _log_of(records, last, gone, folded, winners)


def _side_by_side(keys: pa.Array, arrival: Positions | None) -> tuple[Positions, Positions]:
    """Positions of the rows key by key, each key's in the order of arrival, and how many each has."""
    codes = keys.dictionary_encode()
    of = np.asarray(codes.indices, dtype=np.int64)
    order = np.argsort(of, kind="stable") if arrival is None else np.lexsort((arrival, of))
    return order, np.bincount(of, minlength=len(codes.dictionary)).astype(np.int64)


def _always_deletes(values: pa.Array) -> Flags:
    """Delete entries that ask for no ordering value: theirs is missing, or the int 0 that stands for none (a long 0 is one)."""
    unordered = np.asarray(values.is_null())
    if pa.types.is_int32(values.type):
        unordered = unordered | (np.asarray(values.fill_null(0)) == 0)
    return unordered


def _firsts(starts: Positions, lengths: Positions, empty: Flags, rank: Positions | None, always: Flags) -> Positions:
    """Where what is left of each run begins, after its delete entries took effect; behind its end if nothing is left.

    One round for each place in a run, over all runs with delete entries at once.
    """
    firsts = starts.copy()
    if not empty.any():
        return firsts
    active = np.flatnonzero(np.logical_or.reduceat(empty, starts))
    none = np.iinfo(np.int64).min
    present = np.full(len(active), none)
    for step in range(int(lengths[active].max())):
        more = lengths[active] > step
        active, present = active[more], present[more]
        at = starts[active] + step
        value = np.zeros(len(at), np.int64) if rank is None else rank[at]
        deletes = empty[at] & (always[at] | (present <= value))
        firsts[active[deletes]] = at[deletes] + 1
        present = np.where(deletes, none, np.where(empty[at], present, np.maximum(present, value)))
    return firsts


def _picked(records: LogRecords, last: Positions, gone: Flags, winners: Positions) -> LogRecords:
    """One record per key, each as it came; by the place of the last one that came."""
    at = last.copy()
    at[~gone] = winners  # the last record of a key that is gone is a delete entry
    order = np.argsort(last)
    chosen = pa.array(at[order])
    return LogRecords(
        keys=records.keys.take(chosen),
        rows=take_rows(records.rows.cast(_nullable(records.rows.schema)), at[order]),
        empty=gone[order],
        ordering=None if records.ordering is None else records.ordering.take(chosen),
    )


def _log_of(records: LogRecords, last: Positions, gone: Flags, folded: Folded, ordering_of: Positions) -> LogRecords:
    """One record per key: its folded row, or a delete entry; by the place of the last one that came."""
    place = np.empty(len(last), np.int64)
    place[~gone] = np.arange(folded.rows.num_rows)
    place[gone] = folded.rows.num_rows
    order = np.argsort(last)
    blank = pa.table([pa.nulls(1, f.type) for f in folded.rows.schema], schema=_nullable(folded.rows.schema))
    source = folded.rows.cast(_nullable(folded.rows.schema))
    ordered_by = last.copy()
    ordered_by[~gone] = ordering_of
    fresh, empty = np.zeros(len(last), np.bool_), gone.copy()
    if folded.fresh is not None:
        fresh[~gone] = folded.fresh
    if folded.gone is not None:
        empty[~gone] = folded.gone
    return LogRecords(
        keys=records.keys.take(pa.array(last[order])),
        rows=take_rows(pa.concat_tables([source, blank]) if gone.any() else source, place[order]),
        empty=empty[order],
        ordering=None if records.ordering is None else records.ordering.take(pa.array(ordered_by[order])),
        fresh=fresh[order] if fresh.any() else None,
    )


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_nullable(True) for f in schema])

"""Folding of logs whose deletes are compared by ordering value (`penstock.deletes.follow.ordering`).

A tombstone is a delete of a log that still counts. There are two kinds for a key:

- An unconditional tombstone is a delete without an ordering value. It removes all that came before it.
- An ordered tombstone is the delete with the greatest ordering value among those after the unconditional one. It removes the rows
  with a lesser ordering value, also those that came later, and those with an equal one that came before it.

`fold_ordered_log` keeps both next to the row that is left of a key, because a tombstone also decides about the row in the base
file, and about rows that are folded later. `find_tombstones` then separates the tombstones from the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.fold import LogRecords, deletes_always, group_by_key, make_nullable
from penstock.merge.kernels.gather import Flags, Positions, take_rows, to_array
from penstock.merge.kernels.ordering import is_greater, rank_values
from penstock.merge.kernels.runs import Runs, find_newest
from penstock.merge.merger import Merger


@dataclass(frozen=True)
class Tombstones:
    """The tombstones (deletes that still count) of a folded log, as columns with one element per key of the log.

    `always` is true for a key with an unconditional tombstone, which removes every stored row. `ordering` is the ordering value
    of the key's ordered tombstone, which removes stored rows that are not newer; null: the key has none.
    """

    #: A mask over the keys: true where the key has an unconditional tombstone.
    always: Flags
    #: The ordering value of the ordered tombstone of each key; null: the key has none.
    ordering: pa.Array

    def remove(self, numbers: Positions, stored: pa.ChunkedArray | None, column: str) -> Flags:
        """Return a mask over the stored rows: true where a tombstone removes the row.

        Args:
            numbers: the position of each stored row's key among the keys of the log.
            stored: the ordering values of the stored rows; None if the rows have no ordering column.
            column: the name of the ordering column, for error messages.
        """
        deleted_at = pa.chunked_array([self.ordering.take(pa.array(numbers))])
        has_ordered = np.asarray(pc.is_valid(deleted_at), dtype=np.bool_)
        is_newer = np.zeros(len(numbers), np.bool_)
        if stored is not None and has_ordered.any():
            compared = pc.if_else(pa.array(has_ordered), stored, pa.nulls(len(stored), stored.type))
            is_newer = is_greater(compared, deleted_at, column)
        return np.asarray(self.always[numbers] | (has_ordered & ~is_newer), dtype=np.bool_)


def fold_ordered_log(merger: Merger, records: LogRecords, column: str = "") -> LogRecords:
    """Combine the records of each key to its tombstones and one row: at most three records per key, next to one another.

    The unconditional tombstone comes first, then the ordered one, then the row. Keys are ordered by their last record in
    `records`. A long log may be combined in several calls: put the result for the earlier records in front of the later records.

    Args:
        column: the name of the ordering column, for error messages.
    """
    assert records.ordering is not None  # the option needs an ordering column
    order, lengths = group_by_key(records.keys, None)
    starts = np.cumsum(lengths) - lengths
    run_of = np.repeat(np.arange(len(lengths)), lengths)
    empty = _find_deletes(merger, records)[order]
    ranks = rank_values(records.ordering, column)[order]
    always = empty & deletes_always(records.ordering)[order]
    last_always = _last_in_run(always, np.arange(len(order)), starts)
    counts = np.arange(len(order)) > last_always[run_of]
    # The place of each record by ordering value, then by arrival. A row counts if it comes after all ordered deletes.
    place = np.empty(len(order), np.int64)
    place[np.lexsort((ranks, run_of))] = np.arange(len(order))
    last_delete = _last_in_run(empty & ~always & counts, place, starts)
    is_row = ~empty & counts & (place > last_delete[run_of])
    at_delete = np.flatnonzero(empty & (place == last_delete[run_of]))
    rows, at_row = _fold_rows(merger, records, order, run_of, is_row, ranks)
    parts = [
        (last_always[last_always >= 0], 0),
        (at_delete, 1),
        (at_row, 2),
    ]
    positions = np.concatenate([part for part, _ in parts])
    kinds = np.concatenate([np.full(len(part), kind) for part, kind in parts])
    last_of_key = order[starts + lengths - 1]
    sorted_by_key = np.lexsort((kinds, last_of_key[run_of[positions]]))
    chosen = pa.array(order[positions][sorted_by_key])
    # One row of nulls behind the rows stands for all tombstones.
    blank = pa.table([pa.nulls(1, field.type) for field in rows.schema], schema=rows.schema)
    row_number = np.full(len(positions), rows.num_rows)
    row_number[kinds == 2] = np.arange(rows.num_rows)
    return LogRecords(
        keys=records.keys.take(chosen),
        rows=take_rows(pa.concat_tables([rows, blank]), row_number[sorted_by_key]),
        empty=(kinds < 2)[sorted_by_key],
        ordering=to_array(records.ordering.take(chosen)),
    )


def find_tombstones(records: LogRecords) -> tuple[LogRecords, Positions, Tombstones]:
    """Separate the tombstones (deletes that still count) of a folded log from its rows.

    Args:
        records: the result of `fold_ordered_log`, or several of them with different keys, one after another.

    Returns:
        (one record per key: a row, or a delete entry if it has no row; their positions in `records`; the keys' tombstones).
    """
    assert records.ordering is not None
    codes = np.asarray(records.keys.dictionary_encode().indices, dtype=np.int64)
    is_first = np.append(True, codes[1:] != codes[:-1])[: len(codes)]
    starts = np.flatnonzero(is_first)
    run_of = np.cumsum(is_first) - 1
    ends = np.append(starts[1:], len(codes))[: len(starts)] - 1
    always = records.empty & deletes_always(records.ordering)
    is_ordered = records.empty & ~always
    has_always = np.zeros(len(starts), np.bool_)
    has_always[run_of[always]] = True
    at = np.full(len(starts), -1)
    at[run_of[is_ordered]] = np.flatnonzero(is_ordered)
    tombstones = Tombstones(has_always, records.ordering.take(pa.array(at, mask=at < 0)))
    taken = pa.array(ends)
    one_per_key = replace(
        records, keys=records.keys.take(taken), empty=records.empty[ends], ordering=records.ordering.take(taken)
    )
    return one_per_key, ends, tombstones


def _find_deletes(merger: Merger, records: LogRecords) -> Flags:
    """Return a mask over the records, true for delete entries and for rows that are deletes."""
    return np.asarray(records.empty | merger.is_delete(records.rows), dtype=np.bool_)


def _last_in_run(flags: Flags, places: Positions, starts: Positions) -> Positions:
    """Return for each run (the records of one key) the greatest number among its flagged records; -1 if it has none.

    Args:
        flags: a mask over the records, true for flagged records.
        places: a number per record.
        starts: the position of the first record of each run.
    """
    if not len(starts):
        return np.zeros(0, np.int64)
    return np.maximum.reduceat(np.where(flags, places, -1), starts)


def _fold_rows(
    merger: Merger, records: LogRecords, order: Positions, run_of: Positions, is_row: Flags, ranks: Positions
) -> tuple[pa.Table, Positions]:
    """Combine the rows of each key to one row. Rows that a tombstone (a delete that still counts) removes are left out.

    Args:
        order: the positions of the records, sorted by key.
        run_of: the number of the key of each sorted record.
        is_row: a mask over the sorted records, true for rows that no tombstone removes.
        ranks: numbers that compare like the ordering values of the sorted records.

    Returns:
        The combined rows, and for each of them the position of the sorted record whose ordering value it gets.
    """
    kept = np.flatnonzero(is_row)
    schema = make_nullable(records.rows.schema)
    if not len(kept):
        return schema.empty_table(), kept
    lengths = np.bincount(run_of[kept])
    lengths = lengths[lengths > 0]
    starts = np.cumsum(lengths) - lengths
    winners = kept[find_newest(starts, len(kept), ranks[kept])]
    if not merger.folds:
        return take_rows(records.rows.cast(schema), order[winners]), winners
    folded = merger.fold(Runs(take_rows(records.rows, order[kept]), starts, ranks[kept], True))
    return folded.rows.cast(schema), winners

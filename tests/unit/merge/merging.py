"""Helpers that call mergers as writers and readers do, with rows as dictionaries: merge pairs, insert, fold a batch or a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.merge.kernels.by_key import pick_newest
from penstock.merge.kernels.fold import LogRecords, fold_batch, fold_log
from penstock.merge.kernels.marks import FRESH
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Choice

Row = dict[str, Any]


def merge_rows(
    merger: Merger, old: Sequence[Row], new: Sequence[Row], schema: pa.Schema, fresh: Sequence[bool] = ()
) -> list[Row | None]:
    """Return what is stored after each pair was merged; None if the key is deleted."""
    stored = pa.Table.from_pylist(list(old), schema=schema)
    incoming = pa.Table.from_pylist(list(new), schema=schema)
    if fresh:
        incoming = incoming.append_column(FRESH, pa.array(fresh))
    merged = merger.merge(stored, np.arange(len(old)), incoming)
    rows = merged.rows(merged.choices)
    assert rows.schema == schema
    rows.validate(full=True)
    changed = iter(rows.to_pylist())
    results: list[Row | None] = []
    for choice, row in zip(merged.choices, stored.to_pylist(), strict=True):
        if choice == Choice.DELETE:
            results.append(None)
        elif choice == Choice.KEEP_OLD:
            results.append(row)
        else:
            results.append(next(changed))
    return results


def merge_pair(merger: Merger, old: Row, new: Row, schema: pa.Schema) -> Row | None:
    """Merge a single pair."""
    (row,) = merge_rows(merger, [old], [new], schema)
    return row


def insert(merger: Merger, new: Sequence[Row], schema: pa.Schema) -> list[Row]:
    """Return what is stored of rows of new keys."""
    rows = pa.Table.from_pylist(list(new), schema=schema)
    _, stored = merger.insert(rows)
    return list(stored.to_pylist())


def combine(merger: Merger, rows: Sequence[Row], schema: pa.Schema, ordering: str | None = "ts") -> dict[str, Row]:
    """Return one row per key (`k`) of a batch, by key."""
    return {row["k"]: row for row, _ in combine_with_marks(merger, rows, schema, ordering)}


def combine_with_marks(
    merger: Merger, rows: Sequence[Row], schema: pa.Schema, ordering: str | None = "ts"
) -> list[tuple[Row, bool]]:
    """Return one row per key of a batch, and whether it must take no value from the stored row."""
    table = pa.Table.from_pylist(list(rows), schema=schema)
    if merger.ignores_ordering:
        ordering = None
    keys, values = table["k"].combine_chunks(), table[ordering].combine_chunks() if ordering else None
    if not merger.folds:
        return [(row, False) for row in table.take(pa.array(pick_newest(keys, values, ordering or ""))).to_pylist()]
    batch = fold_batch(merger, table, keys, values, ordering or "")
    found = batch.apply(table)
    assert found.schema == schema
    found.validate(full=True)
    fresh = np.zeros(table.num_rows, np.bool_)
    if batch.fresh is not None:
        fresh[batch.changed] = batch.fresh
    return list(zip(found.to_pylist(), fresh[batch.rows].tolist(), strict=True))


def combine_pair(merger: Merger, older: Row, newer: Row, schema: pa.Schema, ordering: str | None = "ts") -> Row:
    """Return what a batch keeps of two rows of one key."""
    (row,) = combine(merger, [older, newer], schema, ordering).values()
    return row


def fold_records(
    merger: Merger, records: Sequence[tuple[str, Row | None, Any]], schema: pa.Schema, kind: pa.DataType | None = None
) -> dict[str, Row | None]:
    """Fold a log, and return the row of each key. A record is a key, its row (None: a delete entry) and its ordering value."""
    return rows_of(fold_log(merger, make_log(records, schema, kind), "ts"))


def make_log(records: Sequence[tuple[str, Row | None, Any]], schema: pa.Schema, kind: pa.DataType | None = None) -> LogRecords:
    """Return records of a log, in order."""
    return LogRecords(
        keys=pa.array([key for key, _, _ in records], pa.string()),
        rows=pa.Table.from_pylist([row or {} for _, row, _ in records], schema=schema),
        empty=np.array([row is None for _, row, _ in records], np.bool_),
        ordering=pa.array([value for _, _, value in records], kind or pa.int64()),
    )


def rows_of(log: LogRecords) -> dict[str, Row | None]:
    """Return a folded log by key."""
    found = zip(log.keys.to_pylist(), log.rows.to_pylist(), log.empty.tolist(), strict=True)
    return {key: None if empty else row for key, row, empty in found}

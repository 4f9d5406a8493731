"""Which row of a key wins, and why, before anything is written.

The rows of a few keys are staged as in a write and made one per key; the stored ones are found as a write finds them, with
their logs; then the table's own merger is asked, here on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.catalog.listing import merged_slices
from penstock.catalog.merge_rules import build_merge_rules
from penstock.columns import quoted
from penstock.errors import OptionError
from penstock.filegroup.meta_columns import KEY_COLUMN
from penstock.formats.cast import fit_to_schema
from penstock.index import make_index
from penstock.index.lookup import Keys, look_up
from penstock.merge.choice import Choice
from penstock.merge.kernels.by_key import pick_newest
from penstock.merge.kernels.fold import fold_batch
from penstock.merge.kernels.gather import Positions, take_rows, to_array
from penstock.merge.kernels.marks import FRESH, GONE, drop_marks
from penstock.merge.merger import Merger
from penstock.write.checks import check_keys_are_stored, check_ordering_column
from penstock.write.context import WriteContext
from penstock.write.explain.write_plan import dry_run
from penstock.write.locate.live_rows import look_up_merged
from penstock.write.rows.crossing import KEY
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.schema import PreparedRows
from penstock.write.rows.staging import ARRIVAL, Staging, read_pieces, stage_pieces
from penstock.write.rows.task_rows import ordering_values
from penstock.write.task_settings import build_merger

_MOST_KEYS = 20
Row = dict[str, Any]


class Outcome(str, Enum):
    """What becomes of a key."""

    INSERT = "insert"
    UPDATE = "update"
    KEEP = "keep"
    DELETE = "delete"
    #: The row goes to another partition.
    MOVE = "move"
    #: There is no such key, and there will be none.
    NOTHING = "nothing"


@dataclass(frozen=True)
class KeyMerge:
    """What an upsert would make of one key."""

    key: str
    #: Where its row is, or will be.
    partition: str
    #: How many incoming rows have this key.
    rows: int
    outcome: Outcome
    why: str
    payload: str
    #: The ordering values, as text.
    stored_ordering: str | None
    incoming_ordering: str | None
    #: The stored row, the incoming one (made of several, if there are), and the one that will be stored.
    stored: Row | None
    incoming: Row
    result: Row | None


@dataclass(frozen=True)
class _Batch:
    """One incoming row per key."""

    keys: list[str]
    paths: list[str]
    counts: list[int]
    rows: pa.Table


def explain_merge(
    incoming: DataFrame, path: str, options: Mapping[str, object], keys: Sequence[str] | None = None
) -> list[KeyMerge]:
    """What an upsert would make of some keys, in the order of their rows.

    Args:
        keys: record keys; the first ones of the rows, if none are named.
    """
    if isinstance(keys, str):
        raise OptionError(f"keys is a list of record keys, not a text; give [{keys!r}]")
    with dry_run(incoming, path, options) as (write, staging):
        check_keys_are_stored(write, "explain_merge")
        check_ordering_column(write)
        merger = build_merger(write)
        batch = _incoming(write, merger, staging, _chosen(write.prepared, keys))
        return _merges(write, merger, batch) if batch else []


def _chosen(prepared: PreparedRows, keys: Sequence[str] | None) -> PreparedRows:
    """The rows of the keys alone."""
    column = F.col(quoted(prepared.crossing.key or KEY))
    if keys is None:
        keys = [row[0] for row in prepared.rows.select(column).where(column.isNotNull()).distinct().limit(_MOST_KEYS).collect()]
    return prepared.with_rows(prepared.rows.where(column.isin(list(keys))))


def _incoming(write: WriteContext, merger: Merger, staging: Staging, chosen: PreparedRows) -> _Batch | None:
    """The rows of each key made one, as a write does it."""
    pieces = stage_pieces(write.spark, chosen, staging, numbered=True)
    if not pieces:
        return None
    tables = list(read_pieces(staging, pieces))
    staged, places = pa.concat_tables(tables), RowPartitions(pieces)
    rows, arrival, keys = staged.drop_columns([KEY, ARRIVAL]), np.asarray(staged[ARRIVAL]), to_array(staged[KEY])
    paths = pa.array(places.paths).take(pa.array(places.path_numbers_of(np.arange(len(keys)))))
    whole = keys if make_index(write.options).is_global else pc.binary_join_element_wise(paths, keys, "\0")
    column = write.settings.ordering_field or ""
    ordered = write.settings.picks_newest and not (merger.ignores_ordering and not merger.folds)
    ordering = to_array(ordering_values(tables, column)) if ordered else None
    if write.settings.picks_newest and merger.folds:
        by = write.partition_columns if make_index(write.options).is_global else ()
        batch = fold_batch(merger, rows, whole, ordering, column, arrival, by)
        at, made = batch.rows, batch.apply(rows)
        for mark, flags in ((FRESH, batch.fresh), (GONE, batch.gone)):
            if flags is not None:
                made = made.append_column(mark, pa.array(np.isin(at, batch.changed[flags])))
    else:
        at = pick_newest(whole, ordering, column, arrival)
        made = take_rows(rows, at)
    counted = whole.value_counts()
    times = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
    of = pa.array(at)
    return _Batch(keys.take(of).to_pylist(), paths.take(of).to_pylist(), [times[one] for one in whole.take(of).to_pylist()], made)


@dataclass(frozen=True)
class _Fate:
    """What the merger says about a key."""

    choice: np.int8 | None
    result: Row | None
    #: The stored row and the partition it is in; None: there is none.
    stored: Row | None = None
    path: str | None = None
    #: The row keeps the partition columns of the stored one, and goes by them.
    stays: bool = False


def _merges(write: WriteContext, merger: Merger, batch: _Batch) -> list[KeyMerge]:
    """Ask the merger about each key; a handful of them, so that rows are Python's here."""
    old, places = _stored(write, batch)
    met = np.flatnonzero([place is not None for place in places])
    new = np.setdiff1d(np.arange(len(places)), met)
    found = [place for place in places if place is not None]
    by = write.partition_columns if merger.keeps_partition else None
    fates = _fates_of_pairs(merger, old, found, take_rows(batch.rows, met), by)
    kept, begun = merger.insert(take_rows(batch.rows, new))
    rows = iter(begun.to_pylist())
    fates += [_Fate(None, next(rows) if one else None) for one in kept]
    deletes, incoming = merger.is_delete(batch.rows), drop_marks(batch.rows).to_pylist()
    numbers = np.concatenate([met, new]).tolist()
    by_number = dict(zip(numbers, fates, strict=True))
    return [_told(write, batch, at, by_number[at], incoming[at], bool(deletes[at])) for at in range(len(numbers))]


def _stored(write: WriteContext, batch: _Batch) -> tuple[pa.Table, list[tuple[str, int] | None]]:
    """Stored rows, and of each key its partition path and row number; None if the table has no such key."""
    index, storage, schema = make_index(write.options), write.table.storage, write.prepared.stored_schema
    slices = merged_slices(write.table, None if index.is_global else sorted(set(batch.paths)))
    wanted = pa.array(sorted(set(batch.keys)))
    rows, known, count = [schema.empty_table()], dict[tuple[str, str], tuple[str, int]](), 0
    candidates = [one for its in slices.values() for one in its if one.base_file]
    answers = look_up(storage, [one.base_file for one in candidates if one.base_file], Keys(wanted), index.pruning)
    held = {one.file_id for one, answer in zip(candidates, answers, strict=True) if len(answer.key)}
    in_logs = index.finds_rows_in_logs  # new keys may be in a log alone
    for one in (one for its in slices.values() for one in its if one.file_id in held or (in_logs and one.log_files)):
        rules = build_merge_rules(write.table, write.prepared.avro_schema)
        living = look_up_merged(storage, one, rules, wanted, schema.names)
        for number, key in enumerate(living.rows[KEY_COLUMN].to_pylist(), count):
            known.setdefault(("" if index.is_global else one.partition_path, key), (one.partition_path, number))
        rows.append(fit_to_schema(living.rows, schema))
        count += living.rows.num_rows
    of = [("" if index.is_global else path, key) for path, key in zip(batch.paths, batch.keys, strict=True)]
    return pa.concat_tables(rows), [known.get(one) for one in of]


def _fates_of_pairs(
    merger: Merger, old: pa.Table, places: Sequence[tuple[str, int]], new: pa.Table, partition_by: Sequence[str] | None
) -> list[_Fate]:
    at: Positions = np.array([number for _, number in places], np.int64)
    meeting = merger.merge(old, at, new)
    changed, stored = iter(meeting.rows(meeting.choices).to_pylist()), take_rows(old, at).to_pylist()
    fates = []
    for choice, row, (path, _) in zip(meeting.choices, stored, places, strict=True):
        result = row if choice == Choice.KEEP_OLD else None if choice == Choice.DELETE else next(changed)
        stays = result is not None and all(_value(result, one) == _value(row, one) for one in partition_by or ())
        fates.append(_Fate(choice, result, row, path, stays and partition_by is not None))
    return fates


def _told(write: WriteContext, batch: _Batch, at: int, fate: _Fate, incoming: Row, is_delete: bool) -> KeyMerge:
    """A key's fate in words."""
    ordering = write.settings.ordering_field
    values = [None if row is None or ordering is None else _value(row, ordering) for row in (fate.stored, incoming)]
    outcome, why = _outcome(fate, is_delete)
    if outcome is Outcome.KEEP and None not in values:
        stays = "is greater" if values[0] != values[1] else "is as great"
        why = f"{ordering} of the stored row {stays}: {values[0]} {'>' if values[0] != values[1] else '='} {values[1]}"
    path = batch.paths[at]
    if fate.path is not None and fate.path != path:
        moves = make_index(write.options).moves_rows and outcome is Outcome.UPDATE and not fate.stays
        outcome, why = (
            (Outcome.MOVE, f"it is in partition {fate.path!r}") if moves else (outcome, f"{why}; it is in {fate.path!r}")
        )
        path = path if moves else fate.path
    return KeyMerge(
        key=batch.keys[at],
        partition=path,
        rows=batch.counts[at],
        outcome=outcome,
        why=why,
        payload=_payload(write.settings.payload_class),
        stored_ordering=None if values[0] is None else str(values[0]),
        incoming_ordering=None if values[1] is None else str(values[1]),
        stored=fate.stored,
        incoming=incoming,
        result=fate.result,
    )


def _outcome(fate: _Fate, is_delete: bool) -> tuple[Outcome, str]:
    if fate.choice is None:
        if fate.result is not None:
            return Outcome.INSERT, "the table has no such key"
        said = "the incoming row is a delete" if is_delete else "the payload gives no row for it"
        return Outcome.NOTHING, f"the table has no such key, and {said}"
    if fate.choice == Choice.KEEP_OLD:
        return Outcome.KEEP, "the payload keeps the stored row"
    if fate.choice == Choice.DELETE:
        return Outcome.DELETE, "the incoming row is a delete" if is_delete else "the payload gives no row of the two"
    return Outcome.UPDATE, "made of both rows" if fate.choice == Choice.BUILD else "the incoming row replaces the stored one"


def _value(row: Row, path: str) -> Any:
    """A column, or a field inside structs."""
    if path in row:
        return row[path]
    found: Any = row
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _payload(name: str) -> str:
    return name.rpartition(".")[2] if name.startswith("org.apache.hudi.") else name

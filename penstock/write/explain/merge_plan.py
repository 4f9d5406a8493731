"""`explain_merge`: reports which row an upsert would store for a key, and why. No row of the table is changed.

The incoming rows of a few keys are staged as in a write and combined to one per key. Their stored rows are read, with log files
merged into base files. Then the merger of the write merges both, on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.columns import quoted
from penstock.errors import OptionError
from penstock.filegroup.fill_meta_columns import KEY_COLUMN
from penstock.filegroup.model import FileSlice
from penstock.formats.cast import fit_to_schema
from penstock.index import make_index
from penstock.merge.kernels.by_key import pick_newest
from penstock.merge.kernels.fold import fold_batch
from penstock.merge.kernels.gather import Positions, take_rows, to_array
from penstock.merge.kernels.marks import FRESH, GONE, drop_marks
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Choice
from penstock.table.listing import list_merged_slices
from penstock.table.merge_rules import build_merge_rules
from penstock.write.checks import check_keys_are_stored, check_ordering_column
from penstock.write.context import WriteContext
from penstock.write.explain.dry_run import open_dry_run
from penstock.write.explain.key_merge import KeyMerge, Outcome, Row
from penstock.write.locate.key_lookup import WantedKeys, look_up
from penstock.write.locate.live_rows import look_up_merged
from penstock.write.rows.crossing_columns import KEY
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.schema import PreparedRows
from penstock.write.rows.staging import ARRIVAL, Staging, read_pieces, stage_pieces
from penstock.write.task_settings import build_merger
from penstock.write.tasks.task_rows import ordering_values

_MOST_KEYS = 20


@dataclass(frozen=True)
class _Batch:
    """The incoming rows of the keys to explain, combined to one row per key. Item i of each field belongs to key i."""

    keys: list[str]
    paths: list[str]
    #: How many rows of each key came in.
    counts: list[int]
    rows: pa.Table


@dataclass(frozen=True)
class _StoredRows:
    """The stored rows of the keys to explain as an Arrow table, and for each key the place of its row.

    The place is the partition path and the position in `rows`; None for a key that is not stored.
    """

    rows: pa.Table
    #: For each key of the batch: the partition path of its stored row and the position in `rows`; None if the key is not stored.
    places: list[tuple[str, int] | None]


@dataclass(frozen=True)
class _MergeResult:
    """What the merger decided for one key, with the stored row and the row after the merge."""

    #: The merger's `Choice`; None if the key is not stored.
    choice: np.int8 | None
    #: The row after the merge; None if there is none: it was deleted, or is not inserted.
    result: Row | None
    #: The stored row and its partition path; None if the key is not stored.
    stored: Row | None = None
    stored_path: str | None = None
    #: Whether the row stays in the partition of the stored row, because the result has the partition columns of the stored row.
    #: Only with a merger whose result decides the partition (`Merger.keeps_partition`).
    stays: bool = False


def explain_merge(
    incoming: DataFrame, path: str, options: Mapping[str, object], keys: Sequence[str] | None = None
) -> list[KeyMerge]:
    """Return what an upsert would do with some keys, in the order of their incoming rows. The table is not changed.

    Args:
        incoming: the rows that the upsert would write.
        path: the folder of the table.
        options: the options of the upsert, by their keys.
        keys: the record keys to explain; None: up to 20 keys of the incoming rows.

    Raises:
        OptionError: `keys` is a string, or an option is invalid.
        Unsupported: the table does not store record keys.
    """
    if isinstance(keys, str):
        raise OptionError(f"keys is a list of record keys, not a text; give [{keys!r}]")
    with open_dry_run(incoming, path, options) as (write, staging):
        check_keys_are_stored(write, "explain_merge")
        check_ordering_column(write)
        merger = build_merger(write)
        batch = _combine_incoming(write, merger, staging, _choose_keys(write.prepared, keys))
        return _explain_keys(write, merger, batch) if batch else []


def _choose_keys(prepared: PreparedRows, keys: Sequence[str] | None) -> PreparedRows:
    """Return the incoming rows that have one of these record keys.

    If `keys` is None, return the rows of up to `_MOST_KEYS` keys.
    """
    column = F.col(quoted(prepared.crossing.key or KEY))
    if keys is None:
        first_keys = prepared.rows.select(column).where(column.isNotNull()).distinct().limit(_MOST_KEYS)
        keys = [row[0] for row in first_keys.collect()]
    return prepared.with_rows(prepared.rows.where(column.isin(list(keys))))


def _combine_incoming(write: WriteContext, merger: Merger, staging: Staging, chosen: PreparedRows) -> _Batch | None:
    """Stage the incoming rows, and combine them to one per key as the write would. Return None if there are no rows.

    Args:
        staging: the folder in which the rows are staged.
        chosen: the incoming rows of the keys to explain.
    """
    pieces = stage_pieces(write.spark, chosen, staging, numbered=True)
    if not pieces:
        return None
    is_global = make_index(write.options).is_global
    tables = list(read_pieces(staging, pieces))
    staged = pa.concat_tables(tables)
    rows = staged.drop_columns([KEY, ARRIVAL])
    arrival = np.asarray(staged[ARRIVAL])
    keys = to_array(staged[KEY])
    partitions = RowPartitions(pieces)
    paths = pa.array(partitions.paths).take(pa.array(partitions.path_numbers_of(np.arange(len(keys)))))
    # Without a global index a key is unique in its partition only.
    unique_keys = keys if is_global else pc.binary_join_element_wise(paths, keys, "\0")
    column = write.settings.ordering_field or ""
    picks_newest = write.settings.picks_newest
    uses_ordering = picks_newest and (merger.folds or not merger.ignores_ordering)
    ordering = to_array(ordering_values(tables, column)) if uses_ordering else None
    if picks_newest and merger.folds:
        placed_by = write.partition_columns if is_global else ()
        folded = fold_batch(merger, rows, unique_keys, ordering, column, arrival, placed_by)
        numbers = folded.rows
        combined = folded.apply(rows)
        for mark, flags in ((FRESH, folded.fresh), (GONE, folded.gone)):
            if flags is not None:
                combined = combined.append_column(mark, pa.array(np.isin(numbers, folded.changed[flags])))
    else:
        numbers = pick_newest(unique_keys, ordering, column, arrival)
        combined = take_rows(rows, numbers)
    counted = unique_keys.value_counts()
    count_of = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
    chosen_rows = pa.array(numbers)
    return _Batch(
        keys=keys.take(chosen_rows).to_pylist(),
        paths=paths.take(chosen_rows).to_pylist(),
        counts=[count_of[key] for key in unique_keys.take(chosen_rows).to_pylist()],
        rows=combined,
    )


def _explain_keys(write: WriteContext, merger: Merger, batch: _Batch) -> list[KeyMerge]:
    """Read the stored row of each key, merge it with the incoming row, and return one report entry per key.

    Rows are converted to Python dicts for the report. There are few, because explained keys are few.
    """
    stored = _find_stored(write, batch)
    known = np.flatnonzero([place is not None for place in stored.places])
    unknown = np.setdiff1d(np.arange(len(stored.places)), known)
    places = [place for place in stored.places if place is not None]
    partition_columns = write.partition_columns if merger.keeps_partition else None
    results = _merge_known(merger, stored.rows, places, take_rows(batch.rows, known), partition_columns)
    results += _insert_unknown(merger, take_rows(batch.rows, unknown))
    by_number = dict(zip(np.concatenate([known, unknown]).tolist(), results, strict=True))
    is_delete = merger.is_delete(batch.rows)
    incoming = drop_marks(batch.rows).to_pylist()
    return [
        _describe(write, batch, number, by_number[number], incoming[number], is_delete=bool(is_delete[number]))
        for number in range(len(incoming))
    ]


def _find_stored(write: WriteContext, batch: _Batch) -> _StoredRows:
    """Read the stored rows that have a key of the batch, with base files and log files merged."""
    index = make_index(write.options)
    storage = write.table.storage
    schema = write.prepared.stored_schema
    wanted = pa.array(sorted(set(batch.keys)))
    rows = [schema.empty_table()]
    count = 0
    known: dict[tuple[str, str], tuple[str, int]] = {}
    for file_slice in _choose_slices(write, batch, wanted):
        merge_rules = build_merge_rules(write.table, write.prepared.avro_schema)
        living = look_up_merged(storage, file_slice, merge_rules, wanted, schema.names)
        path = file_slice.partition_path
        for number, key in enumerate(living.rows[KEY_COLUMN].to_pylist(), count):
            known.setdefault(("" if index.is_global else path, key), (path, number))
        rows.append(fit_to_schema(living.rows, schema))
        count += living.rows.num_rows
    places = []
    for path, key in zip(batch.paths, batch.keys, strict=True):
        places.append(known.get(("" if index.is_global else path, key)))
    return _StoredRows(pa.concat_tables(rows), places)


def _choose_slices(write: WriteContext, batch: _Batch, wanted: pa.Array) -> list[FileSlice]:
    """Return the file slices that may hold one of the wanted record keys.

    These are the slices whose base file holds a wanted key. If the index finds keys in log files, all slices with log files are
    added, because a new key may be in a log file only.
    """
    index = make_index(write.options)
    slices: list[FileSlice] = []
    for slices_of_path in list_merged_slices(write.table, None if index.is_global else sorted(set(batch.paths))).values():
        slices += slices_of_path
    base_files = [file_slice.base_file for file_slice in slices if file_slice.base_file]
    found = look_up(write.table.storage, base_files, WantedKeys(wanted), index.pruning)
    holding = {base_file.file_id for base_file, result in zip(base_files, found, strict=True) if len(result.key)}
    in_logs = index.finds_rows_in_logs  # then a new key may be in a log alone
    return [file_slice for file_slice in slices if file_slice.file_id in holding or (in_logs and file_slice.log_files)]


def _merge_known(
    merger: Merger,
    stored: pa.Table,
    places: Sequence[tuple[str, int]],
    new: pa.Table,
    partition_columns: Sequence[str] | None,
) -> list[_MergeResult]:
    """Merge incoming rows whose keys are stored with their stored rows. Return one result per incoming row.

    Args:
        stored: the stored rows of all keys.
        places: for each incoming row, the partition path of its stored row and the position of that row in `stored`.
        new: the incoming rows, one per key.
        partition_columns: the columns that decide whether the merged row stays in the partition of the stored row; None if it
            always goes to the partition of the incoming row.
    """
    numbers: Positions = np.array([number for _, number in places], np.int64)
    merged = merger.merge(stored, numbers, new)
    changed_rows = iter(merged.rows(merged.choices).to_pylist())
    stored_rows = take_rows(stored, numbers).to_pylist()
    results = []
    for choice, stored_row, (path, _) in zip(merged.choices, stored_rows, places, strict=True):
        result: Row | None
        if choice == Choice.KEEP_OLD:
            result = stored_row
        elif choice == Choice.DELETE:
            result = None
        else:
            result = next(changed_rows)
        stays = partition_columns is not None and result is not None
        for column in partition_columns or ():
            stays = stays and _get_value(result or {}, column) == _get_value(stored_row, column)
        results.append(_MergeResult(choice, result, stored_row, path, stays))
    return results


def _insert_unknown(merger: Merger, new: pa.Table) -> list[_MergeResult]:
    """Call the merger for incoming rows whose keys the table does not have. Return one result per row."""
    is_kept, inserted = merger.insert(new)
    rows = iter(inserted.to_pylist())
    return [_MergeResult(None, next(rows) if kept else None) for kept in is_kept]


def _describe(
    write: WriteContext, batch: _Batch, number: int, merge: _MergeResult, incoming: Row, *, is_delete: bool
) -> KeyMerge:
    """Return the report entry of one key, with its outcome, the partition of its row after the upsert, and the reason in words.

    Args:
        number: the position of the key in `batch`.
        merge: what the merger decided for the key.
        incoming: the incoming row of the key.
        is_delete: whether the incoming row is a delete.
    """
    ordering = write.settings.ordering_field
    stored_value = _get_value(merge.stored, ordering) if merge.stored is not None and ordering else None
    incoming_value = _get_value(incoming, ordering) if ordering else None
    outcome, why = _find_outcome(merge, is_delete=is_delete)
    if outcome is Outcome.KEEP and stored_value is not None and incoming_value is not None:
        if stored_value != incoming_value:
            why = f"{ordering} of the stored row is greater: {stored_value} > {incoming_value}"
        else:
            why = f"{ordering} of the stored row is as great: {stored_value} = {incoming_value}"
    path = batch.paths[number]
    if merge.stored_path is not None and merge.stored_path != path:
        if make_index(write.options).moves_rows and outcome is Outcome.UPDATE and not merge.stays:
            outcome = Outcome.MOVE
            why = f"it is in partition {merge.stored_path!r}"
        else:
            why = f"{why}; it is in {merge.stored_path!r}"
            path = merge.stored_path
    return KeyMerge(
        key=batch.keys[number],
        partition=path,
        rows=batch.counts[number],
        outcome=outcome,
        why=why,
        payload=_shorten_class(write.settings.payload_class),
        stored_ordering=None if stored_value is None else str(stored_value),
        incoming_ordering=None if incoming_value is None else str(incoming_value),
        stored=merge.stored,
        incoming=incoming,
        result=merge.result,
    )


def _find_outcome(merge: _MergeResult, *, is_delete: bool) -> tuple[Outcome, str]:
    """Return the outcome of a key and the reason in words. A row that also moves to another partition counts as UPDATE here.

    Args:
        merge: what the merger decided for the key.
        is_delete: whether the incoming row is a delete.
    """
    if merge.choice is None:
        if merge.result is not None:
            return Outcome.INSERT, "the table has no such key"
        reason = "the incoming row is a delete" if is_delete else "the payload returns no row for it"
        return Outcome.NOTHING, f"the table has no such key, and {reason}"
    if merge.choice == Choice.KEEP_OLD:
        return Outcome.KEEP, "the payload keeps the stored row"
    if merge.choice == Choice.DELETE:
        return Outcome.DELETE, "the incoming row is a delete" if is_delete else "the payload returns no row of the two"
    if merge.choice == Choice.BUILD:
        return Outcome.UPDATE, "made of both rows"
    return Outcome.UPDATE, "the incoming row replaces the stored one"


def _get_value(row: Row, path: str) -> Any:
    """Return the value of a column of a row; None if the row does not have the column.

    Args:
        path: the name of the column, or `a.b` for a field of a struct.
    """
    if path in row:
        return row[path]
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shorten_class(name: str) -> str:
    """Return the name of a payload class of Hudi without its package. Other names are returned unchanged."""
    return name.rpartition(".")[2] if name.startswith("org.apache.hudi.") else name

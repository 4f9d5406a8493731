"""The operations, each the list of its stages in order. `write/door.py` decides which one runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from penstock import options as o
from penstock.commit.change import Change, begin
from penstock.filegroup.markers import read_markers
from penstock.hooks import PublishedCommit
from penstock.index.consistent_hashing import HashRings, save_rings
from penstock.index.in_memory import remember
from penstock.merge.merger import Merger
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.progress import StageNotes, TaskProgress
from penstock.spread.runner import Runner
from penstock.table import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, workload_profile
from penstock.timeline.instant import Action
from penstock.write.context import WriteContext
from penstock.write.locate.assign import InsertBucket, assign_inserts, sizing_of
from penstock.write.locate.buckets import check_rings_stand, run_bucket
from penstock.write.locate.plan import plan, slices_of
from penstock.write.locate.upsert import INDEX_FIGURES, run_task
from penstock.write.pending_clustering import settle_updates
from penstock.write.rows.combine import combine_rows, wants_one_row_per_key
from penstock.write.rows.combine_staged import fold_pieces
from penstock.write.rows.input_files import run_over_incoming
from penstock.write.rows.schema import PreparedRows
from penstock.write.rows.sort_modes import sort_rows
from penstock.write.rows.staging import Piece, Staging, pieces_fit_on_driver, stage, staging_of
from penstock.write.rules import (
    check_keys_are_stored,
    check_ordering_column,
    combines,
    file_settings,
    insert_logs,
    merger_for,
    rules_of,
    task_rows_settings,
)
from penstock.write.tasks.insert import StoreTask, store_bucket, write_rows
from penstock.write.tell import Telling


def bulk_insert(write: WriteContext) -> PublishedCommit:
    """Write all rows to new file groups, as fast as they come; or into buckets, where the index has them."""
    if write.index.buckets:
        return _into_buckets(write, Operation.BULK_INSERT)
    with begin(write.table, action_of(write.table)) as change:
        arranged, in_runs = sort_rows(combine_rows(write.prepared, write.settings, merger_for(write)), write.settings)
        change.start()
        kernel = partial(write_rows, write.prepared.crossing, file_settings(write, change), in_runs)
        with write.stages.run("store", "writing new file groups") as notes:
            stats = run_over_incoming(write.spark, arranged, kernel, WriteStat)
            note_stats(notes, stats)
        return complete(write, change, stats, Operation.BULK_INSERT)


def insert(write: WriteContext) -> PublishedCommit:
    """Add rows without looking for their keys: small files are filled up, then new file groups are opened.

    Where duplicates are to be dropped, rows whose key the table has are left out.
    """
    if write.options[o.INSERT_DROP_DUPLICATES]:
        return _merge(write, Operation.INSERT)
    if write.index.buckets:
        return _into_buckets(write, Operation.INSERT)
    if not write.options[o.MERGE_ALLOW_DUPLICATE_ON_INSERTS]:
        check_keys_are_stored(write, f"{o.MERGE_ALLOW_DUPLICATE_ON_INSERTS.key}=false")
    with begin(write.table, action_of(write.table)) as change:
        staging, pieces = stage_inserts(write, change)
        write = write.as_of_now()
        with write.stages.run("assign", "filling small files"):
            buckets = assign(write, pieces, change.time)
        change.start(insert_profile(Operation.INSERT, buckets))
        stats = store(write, change, staging, buckets)
        return complete(write, change, stats, Operation.INSERT)


def upsert(write: WriteContext) -> PublishedCommit:
    """Insert new keys and merge known ones."""
    return _merge(write, Operation.UPSERT)


def delete(write: WriteContext) -> PublishedCommit:
    """Remove rows by key; keys that are not in the table are ignored."""
    return _merge(write, Operation.DELETE)


def _merge(write: WriteContext, operation: Operation) -> PublishedCommit:
    check_keys_are_stored(write, write.settings.operation)
    check_ordering_column(write)
    with begin(write.table, action_of(write.table)) as change:
        staging, pieces = stage_rows(write, change, write.prepared, numbered=write.index.is_global)
        return _store_work(write, change, staging, pieces, operation)


def _store_work(
    write: WriteContext, change: Change, staging: Staging, pieces: Sequence[Piece], operation: Operation
) -> PublishedCommit:
    """Locate the keys of staged rows, write every file group that is touched, and publish."""
    staged, write = write.index.buckets, write.as_of_now()
    check_rings_stand(staged, write.index.buckets, {piece.path for piece in pieces})
    rules = rules_of(write, change, staging)
    runner = Runner(write.spark, on_driver=pieces_fit_on_driver(write.options, pieces))
    if not rules.adds and combines(write) and rules.merger.folds:
        pieces = _folded(write, staging, pieces, rules.merger)
    with write.stages.run("tag", "locating keys"):
        work = plan(write, rules, pieces, operation, runner)
        if isinstance(rules.index.buckets, HashRings):
            save_rings(write.table, rules.index.buckets, (p.path for p in pieces))
        settle_updates(write.table, change, work.touched, write.unschedule)
    change.start(work.profile)
    doing = f"{'merging into' if rules.logs is None else 'appending to'} {len(work.tasks)} file groups"
    with write.stages.run("store", doing, files_begun(write, change, len(work.tasks))) as notes:
        stats = runner.collect(run_bucket if rules.index.buckets else run_task, work.tasks, WriteStat)
        note_stats(notes, stats)
    return complete(write, change, stats, operation, {INDEX_FIGURES: work.figures()})


def _into_buckets(write: WriteContext, operation: Operation) -> PublishedCommit:
    """Add rows to the buckets of their keys, without looking for these."""
    check_keys_are_stored(write, f"{o.INDEX_TYPE.key}=BUCKET")
    with begin(write.table, action_of(write.table)) as change:
        staging, pieces = stage_inserts(write, change)
        return _store_work(write, change, staging, pieces, operation)


def stage_inserts(write: WriteContext, change: Change) -> tuple[Staging, list[Piece]]:
    """The rows of an insert, kept; one per key, where the options ask for it."""
    merger = merger_for(write)
    if not merger.folds or not wants_one_row_per_key(write.prepared, write.settings):
        return stage_rows(write, change, combine_rows(write.prepared, write.settings, merger))
    staging, pieces = stage_rows(write, change, write.prepared, numbered=write.index.is_global)
    return staging, _folded(write, staging, pieces, merger)


def stage_rows(
    write: WriteContext, change: Change, prepared: PreparedRows, *, numbered: bool = False
) -> tuple[Staging, list[Piece]]:
    """Evaluate the incoming rows, once, and keep them beside the markers."""
    staging = staging_of(write.table.storage, write.table.base_path, change.time)
    with write.stages.run("stage", "reading the incoming rows") as notes:
        pieces = stage(write.spark, prepared, staging, numbered=numbered, buckets=write.index.buckets)
        notes.rows, notes.size_bytes = sum(p.rows for p in pieces), sum(p.size_bytes for p in pieces)
    return staging, pieces


def files_begun(write: WriteContext, change: Change, total: int) -> TaskProgress:
    """Tasks of a stage that writes files: each announces its file when it begins."""
    return TaskProgress(total, lambda: len(read_markers(write.table.storage, write.table.base_path, change.time)))


def note_stats(notes: StageNotes, stats: Sequence[WriteStat]) -> None:
    """Rows and bytes that were written."""
    notes.rows, notes.size_bytes = sum(s.num_writes for s in stats), sum(s.total_write_bytes for s in stats)


def action_of(table: TableState) -> Action:
    """What a write to the table is on its timeline."""
    return Action.DELTA_COMMIT if table.is_merge_on_read else Action.COMMIT


def _folded(write: WriteContext, staging: Staging, pieces: Sequence[Piece], merger: Merger) -> list[Piece]:
    """One row per key where the payload makes it of several; other payloads pick one of them in the task that merges."""
    runner = Runner(write.spark, on_driver=pieces_fit_on_driver(write.options, pieces))
    ordering, everywhere = write.settings.ordering_field, write.index.is_global
    with write.stages.run("combine", "making one row of several of a key"):
        by = write.partition_columns
        return fold_pieces(staging, pieces, merger, ordering, everywhere=everywhere, placed_by=by, runner=runner)


def assign(write: WriteContext, pieces: Sequence[Piece], instant: str) -> list[InsertBucket]:
    """Every piece of the batch to small files and new file groups of its partition."""
    logs_alone = write.index.sees_logs
    slices = slices_of(write.table, sorted({p.path for p in pieces}), instant=instant, logs_alone=logs_alone)
    return assign_inserts(pieces, slices, sizing_of(write.table, write.options))


def insert_profile(operation: Operation, buckets: Sequence[InsertBucket]) -> CommitMetadata:
    """The workload profile of a write without updates."""
    inserts: dict[str, int] = {}
    for bucket in buckets:
        inserts[bucket.path] = inserts.get(bucket.path, 0) + bucket.rows
    return workload_profile(operation, inserts, [])


def store(
    write: WriteContext, change: Change, staging: Staging, buckets: Sequence[InsertBucket], *, base_files_alone: bool = False
) -> list[WriteStat]:
    """Write every bucket: in Spark tasks, or here when the batch is small.

    Args:
        base_files_alone: also where the index would let new rows go to logs.
    """
    settings, merger = file_settings(write, change), merger_for(write)
    adds = write.options[o.MERGE_ALLOW_DUPLICATE_ON_INSERTS] or write.settings.auto_keys
    loading = None if adds else task_rows_settings(write, staging, None)
    logs = None if base_files_alone else insert_logs(write)
    tasks = [StoreTask(bucket, settings, staging, merger, loading, logs) for bucket in buckets]
    here = pieces_fit_on_driver(write.options, [p for b in buckets for p in b.pieces])
    with write.stages.run("store", f"writing {len(tasks)} file groups", files_begun(write, change, len(tasks))) as notes:
        stats = Runner(write.spark, on_driver=here).collect(store_bucket, tasks, WriteStat)
        note_stats(notes, stats)
    return stats


def complete(
    write: WriteContext,
    change: Change,
    stats: Sequence[WriteStat],
    operation: Operation,
    more: Mapping[str, str] | None = None,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
) -> PublishedCommit:
    """Stage 7: publish; a write that changed nothing leaves no commit, if the options say so.

    Args:
        more: what else the commit says.
        replaced: the file groups of each partition that are no longer seen.
    """
    if not stats and not any((replaced or {}).values()) and not write.options[o.ALLOW_EMPTY_COMMIT]:
        change.abandon()
        return PublishedCommit(change.time, change.instant.action, CommitMetadata(operation=operation.stored))
    telling = Telling(write.spark, write.table, write.index, change.time)
    if telling.index.entries is not None:
        with write.stages.run("index", "telling the index of new keys") as notes:
            notes.rows = telling.of_added(stats)
    said = {"penstock.stages": write.stages.to_text(), INDEX_FIGURES: json.dumps({"index": write.index.name})}
    extra = {**extra_metadata(write.options), **said, **(more or {})}
    commit = change.complete(
        stats,
        operation=operation,
        schema=write.prepared.avro_schema,
        extra=extra,
        replaced=replaced,
        spark=write.spark,
        published=partial(telling.of_removed, stats),
    )
    if write.index.remembers:
        remember(write.table.base_path, ((s.partition_path or "", s.file_id) for s in stats))
    return commit


def extra_metadata(options: Options) -> dict[str, str]:
    """Options that the user wants kept in the commit."""
    prefix = options[o.COMMIT_METADATA_KEY_PREFIX]
    return dict(options.prefixed(prefix)) if prefix else {}

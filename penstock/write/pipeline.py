"""The operations, each the list of its stages in order. `write/door.py` decides which one runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from penstock import options as o
from penstock.commit.base_files import base_file_settings
from penstock.commit.change import Change, begin
from penstock.errors import SchemaError, Unsupported
from penstock.filegroup.markers import read_markers
from penstock.filegroup.model import FileSlice
from penstock.filegroup.write import FileSettings
from penstock.index import index_of
from penstock.merge.gather import column_at
from penstock.merge.mergers import AlwaysDelete, Building, Merger, ignores_ordering
from penstock.merge.payloads import READY, PayloadSettings, delete_marker, merger_of, merger_of_mode
from penstock.merge.runs import Folding
from penstock.metadata.listing import latest_slices
from penstock.metadata.merging import merged_rules
from penstock.options import Options
from penstock.progress import StageNotes, Stages, Tasks
from penstock.schema import column_defaults
from penstock.services.compaction.schedule import reloaded
from penstock.spread import run_tasks
from penstock.storage import temporary_folder
from penstock.table import TableState
from penstock.timeline.contents import CommitMetadata, WriteStat, workload_profile
from penstock.timeline.instant import Action
from penstock.write.append import appendable_slices, log_settings
from penstock.write.arrange import arrange
from penstock.write.assign import Bucket, assign_inserts, sizing_of
from penstock.write.clustered import check_not_replaced, settle_updates
from penstock.write.combine import combine
from penstock.write.fold import fold_pieces
from penstock.write.incoming import run_over_incoming
from penstock.write.prepare import Prepared, counts_as_small
from penstock.write.settings import WriteSettings
from penstock.write.share import ShareSettings, missing_ordering
from penstock.write.stage import Piece, Staging, stage, staging_of
from penstock.write.store import StoreTask, stats_of, store_bucket, write_rows
from penstock.write.upsert import Rules, plan_work, run_task


@dataclass(frozen=True)
class Write:
    """One write under way: where, what, and how."""

    spark: SparkSession
    table: TableState
    settings: WriteSettings
    prepared: Prepared
    stages: Stages

    @property
    def options(self) -> Options:
        """The options of the write."""
        return self.settings.options

    def as_of_now(self) -> Write:
        """The same with the timeline as it is now. When the write's instant is taken, no table service plans before it."""
        return replace(self, table=reloaded(self.table))


@dataclass(frozen=True)
class Commit:
    """A write that is part of the table."""

    instant: str
    action: str
    metadata: CommitMetadata
    #: Services after it that failed, with the reason.
    failed_services: tuple[str, ...] = ()


def bulk_insert(write: Write) -> Commit:
    """Write all rows to new file groups, as fast as they come."""
    with begin(write.table, action_of(write.table)) as change:
        arranged, in_runs = arrange(combine(write.prepared, write.settings, merger_for(write)), write.settings)
        change.start()
        kernel = partial(write_rows, write.prepared.layout, file_settings(write, change), in_runs)
        with write.stages.run("store", "writing new file groups") as notes:
            stats = stats_of(run_over_incoming(write.spark, arranged, kernel))
            note_stats(notes, stats)
        return complete(write, change, stats, "BULK_INSERT")


def insert(write: Write) -> Commit:
    """Add rows without looking for their keys: small files are filled up, then new file groups are opened.

    Where duplicates are to be dropped, rows whose key the table has are left out.
    """
    if write.options[o.INSERT_DROP_DUPLICATES]:
        return _merge(write, "INSERT")
    if not write.options[o.MERGE_ALLOW_DUPLICATE_ON_INSERTS]:
        check_keys_are_stored(write, f"{o.MERGE_ALLOW_DUPLICATE_ON_INSERTS.key}=false")
    with begin(write.table, action_of(write.table)) as change:
        staging, pieces = stage_rows(write, change, combine(write.prepared, write.settings, merger_for(write)))
        write = write.as_of_now()
        with write.stages.run("assign", "filling small files"):
            buckets = assign(write, pieces)
        change.start(insert_profile("INSERT", buckets))
        stats = store(write, change, staging, buckets)
        return complete(write, change, stats, "INSERT")


def upsert(write: Write) -> Commit:
    """Insert new keys and merge known ones."""
    return _merge(write, "UPSERT")


def delete(write: Write) -> Commit:
    """Remove rows by key; keys that are not in the table are ignored."""
    return _merge(write, "DELETE")


def _merge(write: Write, operation: str) -> Commit:
    check_keys_are_stored(write, write.settings.operation)
    check_ordering_column(write)
    with begin(write.table, action_of(write.table)) as change:
        staging, pieces = stage_rows(write, change, write.prepared, numbered=index_of(write.options).is_global)
        write = write.as_of_now()
        rules = rules_of(write, change, staging)
        run = partial(run_tasks, write.spark, here=is_small(write.options, pieces))
        pieces = fold(write, staging, pieces, rules.merger, run)
        with write.stages.run("tag", "locating keys"):
            work = plan_work(rules, pieces, located_slices(write, rules, pieces), operation, run)
            held = settle_updates(write.table, change, work.touched)
        change.start(work.profile)
        doing = f"{'merging into' if rules.logs is None else 'appending to'} {len(work.tasks)} file groups"
        with write.stages.run("store", doing, files_begun(write, change, len(work.tasks))) as notes:
            stats = stats_of(run(run_task, work.tasks))
            note_stats(notes, stats)
        check_not_replaced(write.table, held)
        return complete(write, change, stats, operation)


def check_keys_are_stored(write: Write, what: str) -> None:
    """Refuse what has to find rows by key in files that hold no keys, before anything is written."""
    if not write.options[o.POPULATE_META_FIELDS]:
        raise Unsupported(
            f"{what} looks for record keys in the base files, and {write.table.base_path} keeps none there "
            f"({o.POPULATE_META_FIELDS.key}=false); use insert or bulk_insert, or write a table with that option true"
        )


def check_ordering_column(write: Write) -> None:
    """Refuse rows without the column that decides which of several rows of a key is newer, before anything is written."""
    if not combines(write):
        return
    column = write.settings.ordering_field or write.options[o.PRECOMBINE_FIELD]
    if column_at(write.prepared.stored.empty_table(), column) is None:
        raise SchemaError(missing_ordering(column, write.prepared.stored.names))


def combines(write: Write) -> bool:
    """Whether the batch is reduced to the newest row of each key; otherwise the last one counts."""
    if write.settings.operation == "upsert":
        return write.options[o.COMBINE_BEFORE_UPSERT]
    return write.settings.operation == "insert"


def stage_rows(write: Write, change: Change, prepared: Prepared, *, numbered: bool = False) -> tuple[Staging, list[Piece]]:
    """Evaluate the incoming rows, once, and keep them beside the markers."""
    staging = staging_of(write.table.storage, write.table.base_path, change.time)
    with write.stages.run("stage", "reading the incoming rows") as notes:
        pieces = stage(write.spark, prepared, staging, numbered=numbered)
        notes.rows, notes.size_bytes = sum(p.rows for p in pieces), sum(p.size_bytes for p in pieces)
    return staging, pieces


def files_begun(write: Write, change: Change, total: int) -> Tasks:
    """Tasks of a stage that writes files: each announces its file when it begins."""
    return Tasks(total, lambda: len(read_markers(write.table.storage, write.table.base_path, change.time)))


def note_stats(notes: StageNotes, stats: Sequence[WriteStat]) -> None:
    """Rows and bytes that were written."""
    notes.rows, notes.size_bytes = sum(s.num_writes for s in stats), sum(s.total_write_bytes for s in stats)


def located_slices(write: Write, rules: Rules, pieces: Sequence[Piece]) -> dict[str, list[FileSlice]]:
    """The file slices that incoming keys may be in: of their own partitions, or of all for a global index."""
    return slices_of(write.table, None if rules.index.is_global else sorted({p.path for p in pieces}))


def slices_of(table: TableState, partitions: Sequence[str] | None) -> dict[str, list[FileSlice]]:
    """The newest file slices with a base file; of a merge-on-read table, with the log that changes are appended to.

    Args:
        table: with a timeline that was loaded after the write's own instant was taken.
    """
    return appendable_slices(table, partitions) if table.is_merge_on_read else latest_slices(table, partitions)


def action_of(table: TableState) -> Action:
    """What a write to the table is on its timeline."""
    return Action.DELTA_COMMIT if table.is_merge_on_read else Action.COMMIT


def rules_of(write: Write, change: Change, staging: Staging) -> Rules:
    """What holds for every task of this upsert or delete, or of an insert that drops duplicates."""
    settings, merger, index = write.settings, merger_for(write), index_of(write.options)
    if index.moves and isinstance(merger, Building):
        raise Unsupported(
            f"{o.PAYLOAD_CLASS.key}={settings.payload_class} makes a row of the stored and the incoming one, which is not done "
            f"yet where rows move to another partition; set {index.moves_option}=false"
        )
    ordered = combines(write) and not ignores_ordering(merger) and not isinstance(merger, Folding)
    return Rules(
        settings=file_settings(write, change),
        share=share_settings(write, staging, settings.ordering_field if ordered else None),
        merger=merger,
        sizing=sizing_of(write.table, write.options),
        index=index,
        ordering=settings.ordering_field if combines(write) and not ignores_ordering(merger) else None,
        logs=log_settings(write.table, write.options),
        merging=merged_rules(write.table, write.prepared.avro) if write.table.is_merge_on_read else None,
        drops_unknown=settings.operation == "delete",
        drops_known=settings.operation == "insert",
    )


def merger_for(write: Write) -> Merger:
    """What happens when a row meets its stored version."""
    if write.settings.operation == "delete":
        return AlwaysDelete()
    payload = write.settings.payload_class
    o.PAYLOAD_CLASS.require_support(payload)  # it may be the table's, not the caller's
    if write.table.is_merge_on_read and payload in READY:
        raise Unsupported(
            f"{o.PAYLOAD_CLASS.key}={payload} is for copy-on-write tables so far: other readers of a merge-on-read table would "
            "not know it; choose one of Hudi's payloads"
        )
    mode, settings = write.options[o.RECORD_MERGE_MODE], payload_settings(write)
    if mode is not None:
        return merger_of_mode(mode, settings, payload)
    return merger_of(payload, settings=settings)


def payload_settings(write: Write) -> PayloadSettings:
    """What the payload is told beside its rows."""
    options, prefix = write.options, "penstock.payload."
    return PayloadSettings(
        ordering=write.settings.ordering_field,
        marker=delete_marker(options[o.PAYLOAD_DELETE_FIELD], options[o.PAYLOAD_DELETE_MARKER]),
        defaults=column_defaults(json.loads(write.prepared.avro)),
        own={key[len(prefix) :]: text for key, text in options.prefixed(prefix).items()},
    )


def fold(write: Write, staging: Staging, pieces: Sequence[Piece], merger: Merger, run: Callable[..., Any]) -> list[Piece]:
    """One row per key where the payload makes it of several; other payloads pick one of them in the task that merges."""
    if not combines(write) or not isinstance(merger, Folding):
        return list(pieces)
    everywhere = index_of(write.options).is_global
    with write.stages.run("combine", "making one row of several of a key"):
        return fold_pieces(staging, pieces, merger, write.settings.ordering_field, everywhere=everywhere, run=run)


def share_settings(write: Write, staging: Staging, ordering: str | None) -> ShareSettings:
    """How tasks bring their incoming rows together."""
    return ShareSettings(
        staging=staging,
        ordering=ordering,
        memory_bytes=write.options[o.MERGE_MAX_BYTES],
        spill_folder=write.options[o.SPILLABLE_MAP_PATH] or temporary_folder(),
    )


def assign(write: Write, pieces: Sequence[Piece]) -> list[Bucket]:
    """Every piece of the batch to small files and new file groups of its partition."""
    slices = slices_of(write.table, sorted({p.path for p in pieces}))
    return assign_inserts(pieces, slices, sizing_of(write.table, write.options))


def insert_profile(operation: str, buckets: Sequence[Bucket]) -> CommitMetadata:
    """The workload profile of a write without updates."""
    inserts: dict[str, int] = {}
    for bucket in buckets:
        inserts[bucket.path] = inserts.get(bucket.path, 0) + bucket.rows
    return workload_profile(operation, inserts, [])


def store(write: Write, change: Change, staging: Staging, buckets: Sequence[Bucket]) -> list[WriteStat]:
    """Write every bucket: in Spark tasks, or here when the batch is small."""
    settings, merger = file_settings(write, change), merger_for(write)
    adds = write.options[o.MERGE_ALLOW_DUPLICATE_ON_INSERTS] or write.settings.auto_keys
    share = None if adds else share_settings(write, staging, None)
    tasks = [StoreTask(bucket, settings, staging, merger, share) for bucket in buckets]
    here = is_small(write.options, [p for b in buckets for p in b.pieces])
    with write.stages.run("store", f"writing {len(tasks)} file groups", files_begun(write, change, len(tasks))) as notes:
        stats = stats_of(run_tasks(write.spark, store_bucket, tasks, here=here))
        note_stats(notes, stats)
    return stats


def is_small(options: Options, pieces: Sequence[Piece]) -> bool:
    """Whether starting Spark tasks would cost more than the work itself."""
    return counts_as_small(options, sum(p.rows for p in pieces), sum(p.size_bytes for p in pieces))


def file_settings(write: Write, change: Change) -> FileSettings:
    """How this write's base files are made."""
    prepared = write.prepared
    return base_file_settings(write.table, change.time, prepared.stored, prepared.avro)


def complete(
    write: Write,
    change: Change,
    stats: Sequence[WriteStat],
    operation: str,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
) -> Commit:
    """Stage 7: publish; a write that changed nothing leaves no commit, if the options say so.

    Args:
        replaced: the file groups of each partition that are no longer seen.
    """
    if not stats and not any((replaced or {}).values()) and not write.options[o.ALLOW_EMPTY_COMMIT]:
        change.abandon()
        return Commit(change.time, change.instant.action.value, CommitMetadata(operation=operation))
    extra = {**extra_metadata(write.options), "penstock.stages": write.stages.to_text()}
    metadata = change.complete(stats, operation=operation, schema=write.prepared.avro, extra=extra, replaced=replaced)
    return Commit(change.time, change.instant.action.value, metadata)


def extra_metadata(options: Options) -> dict[str, str]:
    """Options that the user wants kept in the commit."""
    prefix = options[o.COMMIT_METADATA_KEY_PREFIX]
    return dict(options.prefixed(prefix)) if prefix else {}

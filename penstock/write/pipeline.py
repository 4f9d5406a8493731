"""The operations, each the list of its stages in order. `write/door.py` decides which one runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from penstock import options as o
from penstock.commit.change import Change, begin
from penstock.filegroup.model import FileSlice
from penstock.filegroup.write import FileSettings
from penstock.formats.parquet import BloomSettings
from penstock.index import index_of
from penstock.merge.mergers import AlwaysDelete
from penstock.merge.payloads import merger_of
from penstock.metadata.listing import latest_slices
from penstock.options import Options
from penstock.progress import StageNotes, Stages
from penstock.schema import avro_text, with_meta_columns
from penstock.spread import run_over_rows, run_tasks
from penstock.storage import temporary_folder
from penstock.table import TableState
from penstock.timeline.contents import CommitMetadata, WriteStat, workload_profile
from penstock.timeline.instant import Action
from penstock.write.arrange import arrange
from penstock.write.assign import Bucket, assign_inserts, sizing_of
from penstock.write.combine import combine
from penstock.write.prepare import Prepared
from penstock.write.settings import WriteSettings
from penstock.write.share import ShareSettings
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


@dataclass(frozen=True)
class Commit:
    """A write that is part of the table."""

    instant: str
    action: str
    metadata: CommitMetadata


def bulk_insert(write: Write) -> Commit:
    """Write all rows to new file groups, as fast as they come."""
    with begin(write.table, Action.COMMIT) as change:
        rows, in_runs = arrange(combine(write.prepared, write.settings), write.settings)
        change.start()
        kernel = partial(write_rows, write.prepared.layout, file_settings(write, change), in_runs)
        with write.stages.run("store", "writing new file groups") as notes:
            stats = stats_of(run_over_rows(rows, kernel))
            note_stats(notes, stats)
        return complete(write, change, stats, "BULK_INSERT")


def insert(write: Write) -> Commit:
    """Add rows without looking for their keys: small files are filled up, then new file groups are opened."""
    with begin(write.table, Action.COMMIT) as change:
        staging, pieces = stage_rows(write, change, combine(write.prepared, write.settings))
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
    with begin(write.table, Action.COMMIT) as change:
        staging, pieces = stage_rows(write, change, write.prepared)
        rules = rules_of(write, change, staging)
        run = partial(run_tasks, write.spark, here=is_small(write.options, pieces))
        with write.stages.run("tag", "locating keys"):
            work = plan_work(rules, pieces, located_slices(write, rules, pieces), operation, run)
        change.start(work.profile)
        with write.stages.run("store", f"merging into {len(work.tasks)} file groups") as notes:
            stats = stats_of(run(run_task, work.tasks))
            note_stats(notes, stats)
        return complete(write, change, stats, operation)


OPERATIONS: dict[str, Callable[[Write], Commit]] = {
    "bulk_insert": bulk_insert,
    "insert": insert,
    "upsert": upsert,
    "delete": delete,
}


def stage_rows(write: Write, change: Change, prepared: Prepared) -> tuple[Staging, list[Piece]]:
    """Evaluate the incoming rows, once, and keep them beside the markers."""
    staging = staging_of(write.table.storage, write.table.base_path, change.time)
    with write.stages.run("stage", "reading the incoming rows") as notes:
        pieces = stage(prepared, staging)
        notes.rows, notes.size_bytes = sum(p.rows for p in pieces), sum(p.size_bytes for p in pieces)
    return staging, pieces


def note_stats(notes: StageNotes, stats: Sequence[WriteStat]) -> None:
    """Rows and bytes that were written."""
    notes.rows, notes.size_bytes = sum(s.num_writes for s in stats), sum(s.total_write_bytes for s in stats)


def located_slices(write: Write, rules: Rules, pieces: Sequence[Piece]) -> dict[str, list[FileSlice]]:
    """The file slices that incoming keys may be in: of their own partitions, or of all for a global index."""
    partitions = None if rules.index.is_global else sorted({p.path for p in pieces})
    return latest_slices(write.table, partitions)


def rules_of(write: Write, change: Change, staging: Staging) -> Rules:
    """What holds for every task of this upsert or delete."""
    options, is_delete = write.options, write.settings.operation == "delete"
    combines = options[o.COMBINE_BEFORE_UPSERT] and not is_delete
    ordering = write.settings.ordering_field if combines else None
    share = ShareSettings(
        staging=staging,
        ordering=ordering,
        memory_bytes=options[o.MERGE_MAX_BYTES],
        spill_folder=options[o.SPILLABLE_MAP_PATH] or temporary_folder(),
    )
    return Rules(
        settings=file_settings(write, change),
        share=share,
        merger=AlwaysDelete() if is_delete else merger_of(write.settings.payload_class, write.settings.ordering_field),
        sizing=sizing_of(write.table, options),
        index=index_of(options),
        drops_unknown=is_delete,
    )


def assign(write: Write, pieces: Sequence[Piece]) -> list[Bucket]:
    """Every piece of the batch to small files and new file groups of its partition."""
    slices = latest_slices(write.table, sorted({p.path for p in pieces}))
    return assign_inserts(pieces, slices, sizing_of(write.table, write.options))


def insert_profile(operation: str, buckets: Sequence[Bucket]) -> CommitMetadata:
    """The workload profile of a write without updates."""
    inserts: dict[str, int] = {}
    for bucket in buckets:
        inserts[bucket.path] = inserts.get(bucket.path, 0) + bucket.rows
    return workload_profile(operation, inserts, [])


def store(write: Write, change: Change, staging: Staging, buckets: Sequence[Bucket]) -> list[WriteStat]:
    """Write every bucket: in Spark tasks, or here when the batch is small."""
    settings = file_settings(write, change)
    tasks = [StoreTask(bucket, settings, staging) for bucket in buckets]
    here = is_small(write.options, [p for b in buckets for p in b.pieces])
    with write.stages.run("store", f"writing {len(tasks)} file groups") as notes:
        stats = stats_of(run_tasks(write.spark, store_bucket, tasks, here=here))
        note_stats(notes, stats)
    return stats


def is_small(options: Options, pieces: Sequence[Piece]) -> bool:
    """Whether starting Spark tasks would cost more than the work itself."""
    rows, size = sum(p.rows for p in pieces), sum(p.size_bytes for p in pieces)
    return rows <= options[o.SMALL_BATCH_ROWS] and size <= options[o.SMALL_BATCH_BYTES]


def file_settings(write: Write, change: Change) -> FileSettings:
    """How this write's base files are made."""
    options = write.options
    bloom = BloomSettings(
        kind=options[o.BLOOM_FILTER_TYPE],
        entries=options[o.BLOOM_NUM_ENTRIES],
        error_rate=options[o.BLOOM_FPP],
        max_entries=options[o.BLOOM_MAX_ENTRIES],
    )
    return FileSettings(
        storage=write.table.storage,
        base_path=write.table.base_path,
        instant=change.time,
        schema=write.prepared.stored,
        avro_schema=avro_text(with_meta_columns(write.prepared.avro)),
        codec=options[o.COMPRESSION_CODEC],
        bloom=bloom,
        populate_meta=options[o.POPULATE_META_FIELDS],
        max_file_bytes=options[o.MAX_FILE_SIZE],
    )


def complete(write: Write, change: Change, stats: Sequence[WriteStat], operation: str) -> Commit:
    """Stage 7: publish."""
    extra = {**extra_metadata(write.options), "penstock.stages": write.stages.to_text()}
    metadata = change.complete(stats, operation=operation, schema=write.prepared.avro, extra=extra)
    return Commit(change.time, change.instant.action.value, metadata)


def extra_metadata(options: Options) -> dict[str, str]:
    """Options that the user wants kept in the commit."""
    prefix = options[o.COMMIT_METADATA_KEY_PREFIX]
    return dict(options.prefixed(prefix)) if prefix else {}

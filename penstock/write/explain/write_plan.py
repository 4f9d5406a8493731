"""What a write would do, before it does it.

The rows are evaluated and staged, keys are located, new rows assigned, all as in the write itself; then everything is thrown
away again. Nothing is put on the timeline and no data file is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from penstock import clock
from penstock import options as o
from penstock.commit.change import Change
from penstock.errors import OptionError
from penstock.filegroup.markers import TEMP
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.progress import Stages, format_bytes, format_table
from penstock.storage import join, open_storage
from penstock.table import TableState, open_table, table_exists, table_schema
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import FOLDER
from penstock.write.context import WriteContext
from penstock.write.create_table import preview_table
from penstock.write.file_sizing import insert_ratio
from penstock.write.locate.plan import plan, plan_inserts
from penstock.write.locate.task_plan import TaskPlan
from penstock.write.rows.schema import prepare_rows
from penstock.write.rows.staging import Piece, Staging, make_runner, stage_pieces
from penstock.write.settings import check_against_table, resolve_settings
from penstock.write.task_settings import build_upsert_rules
from penstock.write.tasks.task import BucketTask, GroupTask, InsertBucket

#: The time of a write that will not happen: behind all that did.
_LAST = "9" * 17


@dataclass(frozen=True)
class GroupPlan:
    """What happens to one file group."""

    partition_path: str
    #: None for a file group that is new.
    file_id: str | None
    rows_changed: int
    rows_new: int
    bytes_rewritten: int

    def cells(self) -> list[str]:
        """A row of the printed table."""
        counts = f"{self.rows_changed:,}", f"{self.rows_new:,}", format_bytes(self.bytes_rewritten)
        return [self.partition_path or "(none)", self.file_id or "new", *counts]


@dataclass(frozen=True)
class WritePlan:
    """A write, explained. Prints as a table."""

    operation: str
    index: str
    rows_incoming: int
    bytes_incoming: int
    groups: tuple[GroupPlan, ...]
    files_opened: int
    #: Why this index was chosen, where that was left to us (`penstock.index=auto`).
    index_why: str = ""

    @property
    def bytes_rewritten(self) -> int:
        """Bytes of base files that will be written again."""
        return sum(g.bytes_rewritten for g in self.groups)

    @property
    def write_amplification(self) -> float:
        """Bytes written per byte that came in, estimated."""
        return (self.bytes_rewritten + self.bytes_incoming) / max(1, self.bytes_incoming)

    def __str__(self) -> str:
        rows = [
            [
                g.partition_path or "(none)",
                g.file_id or "new",
                f"{g.rows_changed:,}",
                f"{g.rows_new:,}",
                format_bytes(g.bytes_rewritten),
            ]
            for g in self.groups
        ]
        title = (
            f"{self.operation} of {self.rows_incoming:,} rows ({format_bytes(self.bytes_incoming)}) by {self.index}: "
            f"{len(self.groups)} file groups, {format_bytes(self.bytes_rewritten)} rewritten, "
            f"write amplification about {self.write_amplification:.1f}"
        )
        title += f"\n{self.index} was chosen: {self.index_why}" if self.index_why else ""
        return f"{title}\n" + format_table("", ["partition", "file group", "rows changed", "rows new", "rewritten"], rows)

    __repr__ = __str__


def explain_write(incoming: DataFrame, path: str, options: Mapping[str, object], spark: SparkSession | None = None) -> WritePlan:
    """Explain an upsert, insert or delete: which file groups it touches, and how much it rewrites.

    Example:
        >>> print(penstock.explain_write(df, path, hoodie_options))  # doctest: +SKIP
    """
    with dry_run(incoming, path, options, spark) as (write, staging):
        return _explain(write, staging)


@contextmanager
def dry_run(
    incoming: DataFrame, path: str, options: Mapping[str, object], spark: SparkSession | None = None
) -> Iterator[tuple[WriteContext, Staging]]:
    """A write that is not begun, and a place for its rows that is gone afterwards."""
    session = spark or incoming.sparkSession
    storage, base_path = open_storage(path)
    given = read_options(options)
    exists = table_exists(storage, base_path)
    table = open_table(path, given) if exists else None
    if table is not None:
        check_against_table(given, table.config, base_path)
    settings = resolve_settings(given, table.config if table else None, frozenset(incoming.columns))
    if settings.operation is Operation.BULK_INSERT:
        raise OptionError("bulk_insert looks at no existing file: there is nothing to explain. Explain insert, upsert or delete")
    prepared = prepare_rows(incoming, settings, table_schema(table) if table else None)
    state = table or preview_table(storage, base_path, settings)
    write = WriteContext(
        session, replace(state, options=settings.options), settings, prepared, Stages("explain", "off"), _unschedule_nothing
    )
    folder = join(base_path, FOLDER, TEMP, f"explain-{clock.new_uuid()}")
    try:
        yield write, Staging(storage, folder)
    finally:
        storage.delete_tree(folder if exists else join(base_path, FOLDER))


def _unschedule_nothing(table: TableState, time: str) -> None:
    raise AssertionError("a write that is only explained takes no plan off the timeline")


def _explain(write: WriteContext, staging: Staging) -> WritePlan:
    buckets = write.index.buckets
    pieces = stage_pieces(write.spark, write.prepared, staging, buckets=buckets)
    if write.settings.operation is Operation.INSERT and buckets is None:
        rewrites = insert_ratio(write.table, write.options) is None
        return _plan(write, pieces, [_of_bucket(b, rewrites=rewrites) for b in plan_inserts(write, pieces, _LAST)])
    nowhere = Change(write.table, Instant(_LAST, Action.COMMIT, State.REQUESTED))
    rules = build_upsert_rules(write, nowhere, staging)
    runner = make_runner(write, pieces)
    work = plan(write, rules, pieces, write.settings.operation, runner, apart=True)
    if buckets is not None:
        return _plan(write, pieces, [_of_bucket_task(task) for task in work.tasks if isinstance(task, BucketTask)], work)
    changed = {(s.partition_path, s.file_id): s.num_update_writes for s in work.profile.stats if s.file_id}
    groups = [
        GroupPlan(
            partition_path=task.partition_path,
            file_id=task.file_id,
            rows_changed=changed.get((task.partition_path, task.file_id or ""), 0),
            rows_new=task.new_rows.rows if task.new_rows else 0,
            bytes_rewritten=task.base_file.size_bytes if task.base_file and not task.appends else 0,
        )
        for task in work.tasks
        if isinstance(task, GroupTask)
    ]
    return _plan(write, pieces, groups, work)


def _of_bucket(bucket: InsertBucket, *, rewrites: bool) -> GroupPlan:
    target = bucket.target
    size = target.base_file.size_bytes if rewrites and target and target.base_file else 0
    return GroupPlan(bucket.partition_path, target.file_id if target else None, 0, bucket.rows, size)


def _of_bucket_task(task: BucketTask) -> GroupPlan:
    """Which rows of a bucket are known is not looked for: all rows that come to one with rows count as changes."""
    known = task.incoming_rows if task.file_slice else 0
    rewritten = task.base_file if task.rules.logs is None else None
    return GroupPlan(
        partition_path=task.partition_path,
        file_id=task.file_id if task.file_slice else None,
        rows_changed=known,
        rows_new=task.incoming_rows - known,
        bytes_rewritten=rewritten.size_bytes if rewritten else 0,
    )


def _plan(write: WriteContext, pieces: Sequence[Piece], groups: Sequence[GroupPlan], work: TaskPlan | None = None) -> WritePlan:
    return WritePlan(
        operation=write.settings.operation.value,
        index=work.index if work else write.options[o.INDEX_TYPE],
        rows_incoming=sum(p.rows for p in pieces),
        bytes_incoming=sum(p.size_bytes for p in pieces),
        groups=tuple(sorted(groups, key=lambda g: (g.partition_path, g.file_id or "~"))),
        files_opened=work.index_counts.get("opened", 0) if work else 0,
        index_why=work.why if work else "",
    )

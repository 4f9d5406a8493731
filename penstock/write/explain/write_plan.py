"""`explain_write`: reports which file groups a write would change, and how many bytes it would rewrite.

As in the write itself, the incoming rows are evaluated and staged, the file group of each key is looked up, and new rows are
assigned to file groups. Then the staged files are deleted. Nothing is put on the timeline and no data file is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from penstock import options as o
from penstock.commit.change import Change
from penstock.options.operation import Operation
from penstock.progress import format_bytes, format_count
from penstock.report_table import ColumnHead, HtmlFields, ReportTable
from penstock.timeline.instant import Action, Instant, State
from penstock.write.context import WriteContext
from penstock.write.explain.dry_run import open_dry_run
from penstock.write.locate.plan import plan_inserts, plan_upsert
from penstock.write.locate.small_files import insert_ratio
from penstock.write.locate.task_plan import TaskPlan
from penstock.write.rows.staging import Piece, Staging, make_runner, stage_pieces
from penstock.write.task_settings import build_upsert_rules
from penstock.write.tasks.task import BucketTask, GroupTask, InsertBucket

#: The time of a write that never begins: later than every instant of the table.
_LAST = "9" * 17

_PLAN_COLUMNS = (
    ColumnHead("partition"),
    ColumnHead("file group"),
    ColumnHead("rows changed", right=True),
    ColumnHead("rows new", right=True),
    ColumnHead("rewritten", right=True),
)


@dataclass(frozen=True)
class GroupPlan(HtmlFields):
    """What a write would do to one file group: how many rows it changes and adds, and how many bytes it rewrites."""

    partition_path: str
    #: The id of the existing file group; None for a new one.
    file_id: str | None
    rows_changed: int
    rows_new: int
    #: The size of the base file, if it is rewritten; 0 if the write appends to the log or opens a new file group.
    bytes_rewritten: int


@dataclass(frozen=True)
class WritePlan:
    """What a write would do to the table: a `GroupPlan` for each file group, and totals.

    Printed, it is a summary, then a report with one line per file group.
    """

    operation: str
    index: str
    rows_incoming: int
    bytes_incoming: int
    groups: tuple[GroupPlan, ...]
    #: How many base files were opened to look for keys.
    files_opened: int
    #: The reason for the index if `penstock.index=auto` chose it; otherwise empty.
    index_why: str = ""

    @property
    def bytes_rewritten(self) -> int:
        """The total size of the existing base files that the write would rewrite, in bytes."""
        return sum(group.bytes_rewritten for group in self.groups)

    @property
    def write_amplification(self) -> float:
        """An estimate of the bytes that the write would write, divided by the incoming bytes.

        The bytes written are estimated as the incoming bytes and the sizes of the base files that would be rewritten.
        """
        return (self.bytes_rewritten + self.bytes_incoming) / max(1, self.bytes_incoming)

    def __str__(self) -> str:
        """Return the plan as text: a summary, then one line per file group."""
        return self._to_table().to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the plan as HTML, for notebooks."""
        return self._to_table().to_html()

    def _to_table(self) -> ReportTable:
        """Return the plan as a `ReportTable` with one line per file group. Its heading is the summary."""
        title = (
            f"{self.operation} of {format_count(self.rows_incoming, 'row')} ({format_bytes(self.bytes_incoming)}) "
            f"by {self.index}: "
            f"{format_count(len(self.groups), 'file group')}, {format_bytes(self.bytes_rewritten)} rewritten, "
            f"write amplification about {self.write_amplification:.1f}"
        )
        if self.index_why:
            title += f"\n{self.index} was chosen: {self.index_why}"
        rows = [
            [
                group.partition_path or "(none)",
                group.file_id or "new",
                f"{group.rows_changed:,}",
                f"{group.rows_new:,}",
                format_bytes(group.bytes_rewritten),
            ]
            for group in self.groups
        ]
        return ReportTable(title, _PLAN_COLUMNS, rows, if_empty="no row changes")


def explain_write(incoming: DataFrame, path: str, options: Mapping[str, object], spark: SparkSession | None = None) -> WritePlan:
    """Return which file groups an upsert, insert or delete would change, and how many bytes it would rewrite.

    The incoming rows are evaluated, and staged in a folder that is deleted again. The table is not changed.

    Args:
        incoming: the rows of the write.
        path: the folder of the table. If there is no table, the plan is that of the first write.
        options: the options of the write, by their keys.
        spark: the session to use; None: the session of `incoming`.

    Raises:
        OptionError: the operation is bulk_insert, or an option is invalid.

    Example:
        >>> print(penstock.explain_write(df, path, hoodie_options))  # doctest: +SKIP
    """
    with open_dry_run(incoming, path, options, spark) as (write, staging):
        pieces = stage_pieces(write.spark, write.prepared, staging, buckets=write.index.buckets)
        if write.settings.operation is Operation.INSERT and write.index.buckets is None:
            return _explain_insert(write, pieces)
        return _explain_upsert(write, staging, pieces)


def _explain_insert(write: WriteContext, pieces: Sequence[Piece]) -> WritePlan:
    """Return the plan of an insert, which assigns rows to file groups without looking for their keys.

    Args:
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
    """
    rewrites = insert_ratio(write.table, write.options) is None  # otherwise new rows are appended to logs
    groups = [_plan_insert_bucket(bucket, rewrites=rewrites) for bucket in plan_inserts(write, pieces, _LAST)]
    return _make_write_plan(write, pieces, groups)


def _explain_upsert(write: WriteContext, staging: Staging, pieces: Sequence[Piece]) -> WritePlan:
    """Return the plan of a write that looks for its keys in stored rows, or hashes them into buckets.

    Args:
        staging: the folder of the staged rows (Arrow files to which the incoming rows were saved).
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
    """
    change = Change(write.table, Instant(_LAST, Action.COMMIT, State.REQUESTED))
    rules = build_upsert_rules(write, change, staging)
    # All keys are located first: the counts of a task that locates its own keys would not be known without running it.
    task_plan = plan_upsert(write, rules, pieces, make_runner(write, pieces), locates_all=True)
    changed_rows = {
        (stat.partition_path, stat.file_id): stat.num_update_writes for stat in task_plan.profile.stats if stat.file_id
    }
    groups = []
    for task in task_plan.tasks:
        if isinstance(task, BucketTask):
            groups.append(_plan_bucket(task))
        elif isinstance(task, GroupTask):
            rows_changed = changed_rows.get((task.partition_path, task.file_id or ""), 0)
            groups.append(_plan_group(task, rows_changed))
    return _make_write_plan(write, pieces, groups, task_plan)


def _plan_insert_bucket(bucket: InsertBucket, *, rewrites: bool) -> GroupPlan:
    """Return what an insert would do to the file group of one insert bucket (the incoming rows that go to one file group).

    Args:
        rewrites: whether a base file that takes new rows is rewritten; if not, the rows are appended to a log.
    """
    return GroupPlan(
        partition_path=bucket.partition_path,
        file_id=bucket.target.file_id if bucket.target else None,
        rows_changed=0,
        rows_new=bucket.rows,
        bytes_rewritten=bucket.target.base_bytes if bucket.target and rewrites else 0,
    )


def _plan_bucket(task: BucketTask) -> GroupPlan:
    """Return what a write would do to one bucket of the bucket index.

    All incoming rows of an existing bucket count as changed, because the stored keys are not read.
    """
    rows_changed = task.incoming_rows if task.file_slice else 0
    rewrites = task.rules.logs is None
    return GroupPlan(
        partition_path=task.partition_path,
        file_id=task.file_id if task.file_slice else None,
        rows_changed=rows_changed,
        rows_new=task.incoming_rows - rows_changed,
        bytes_rewritten=task.file_slice.base_bytes if task.file_slice and rewrites else 0,
    )


def _plan_group(task: GroupTask, rows_changed: int) -> GroupPlan:
    """Return what an upsert would do to the file group of one task.

    Args:
        rows_changed: how many stored rows of the file group have an incoming key.
    """
    return GroupPlan(
        partition_path=task.partition_path,
        file_id=task.file_id,
        rows_changed=rows_changed,
        rows_new=task.new_rows.rows if task.new_rows else 0,
        bytes_rewritten=task.file_slice.base_bytes if task.file_slice and not task.appends else 0,
    )


def _make_write_plan(
    write: WriteContext, pieces: Sequence[Piece], groups: Sequence[GroupPlan], task_plan: TaskPlan | None = None
) -> WritePlan:
    """Return the plan of the whole write. File groups are sorted by partition path; new file groups come last.

    Args:
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
        task_plan: the planned tasks, with the name of the index and the number of files that it opened; None for an insert,
            which looks for no keys.
    """
    in_order = sorted(groups, key=lambda group: (group.partition_path, group.file_id or "~"))  # new groups come last
    return WritePlan(
        operation=write.settings.operation.value,
        index=task_plan.index if task_plan else write.options[o.INDEX_TYPE],
        rows_incoming=sum(piece.rows for piece in pieces),
        bytes_incoming=sum(piece.size_bytes for piece in pieces),
        groups=tuple(in_order),
        files_opened=task_plan.index_counts.get("opened", 0) if task_plan else 0,
        index_why=task_plan.why if task_plan else "",
    )

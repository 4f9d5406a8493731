"""A table of the model: real timeline, names, markers and commits; data files hold rows as JSON.

A row is a key with a list of tokens. Every write that changes a row adds its token, so that a lost, doubled or half write shows in the
rows. What decides about a commit is the code of Penstock: `begin`, `Change`, claims, conflicts, heartbeats, rollback, clean, and the
plans of compaction and clustering. What the model replaces is what tasks do with rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.commit.begin import begin
from penstock.commit.change import Change
from penstock.commit.overlap import ConcurrentCommit
from penstock.commit.replace import begin_replace, list_replaced_groups
from penstock.errors import CommitUnknown, StorageError, WriteConflict
from penstock.filegroup.markers import Marker, MarkerType, announce, check_open
from penstock.filegroup.model import FileSlice
from penstock.filegroup.names import base_file_name, log_file_name, mark_token, next_log_version, parse_log_name
from penstock.formats.log import BlockType, scan_blocks
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.clustering.planned_slices import planned_slices
from penstock.services.clustering.service import Clustering
from penstock.services.compaction.plan import plan_operation, slices_with_logs
from penstock.services.compaction.planned_slices import (
    list_folders,
    named_slice,
    remaining_operations,
    unnamed_logs,
    whole_slice,
)
from penstock.services.compaction.service import Compaction
from penstock.services.log_compaction.service import LogCompaction
from penstock.services.planned import PlanRun, run_pending, schedule_and_run
from penstock.services.restore import restore
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.services.rollback.requested import roll_back_to
from penstock.services.savepoint import create_savepoint
from penstock.storage import Storage, join
from penstock.table.config import write_config
from penstock.table.listing import list_groups, list_merged_slices, load_visibility
from penstock.table.pending import find_pending_groups
from penstock.table.savepoints import list_savepoint_times
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionPlan
from penstock.timeline.instant import Action
from penstock.write.locate.file_slices import list_write_slices
from penstock.write.pending_clustering import resolve_clustering_conflicts

BASE = "/t"
PARTITION = "p"
SCHEMA = '{"type":"record","name":"r","fields":[{"name":"id","type":"string"}]}'
QUIET = Stages("", "off")
RETRIES = 8
OPTIONS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "in_process",
    "hoodie.metadata.enable": "false",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000",
    "hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true",
}
#: The rows of a table: tokens by key.
Rows = dict[str, list[str]]


@dataclass(frozen=True)
class Write:
    """A write of the model: what its commit does to the rows. Stored in the extra metadata of the commit."""

    name: str
    key: str = ""
    token: str = ""

    def apply(self, rows: Rows) -> Rows:
        """Return the rows after the operation."""
        if self.name in ("delete_partition", "overwrite"):
            return {self.key: [self.token]} if self.name == "overwrite" else {}
        if self.name == "delete":
            return {key: tokens for key, tokens in rows.items() if key != self.key}
        if self.name in ("upsert", "insert"):
            return {**rows, self.key: [*rows.get(self.key, []), self.token]}
        return rows


class Slow(Exception):
    """A write that conflicted too often."""


def make_table(storage: Storage, *, merge_on_read: bool = False, options: Mapping[str, str] | None = None) -> TableState:
    """Create the table, with some options besides `OPTIONS`."""
    raw = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "MERGE_ON_READ" if merge_on_read else "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.archivelog.folder": "archived",
    }
    config = write_config(storage, BASE, raw, new=True)
    storage.replace(join(BASE, PARTITION, ".hoodie_partition_metadata"), b"")
    return TableState(storage, BASE, config, read_options({**OPTIONS, **(options or {})}))


# Rows in files


def read_slice(storage: Storage, file_slice: FileSlice, is_visible: Callable[[str], bool]) -> Rows:
    """Return the rows of a file slice: those of its base file, then the changes of its log files."""
    rows: Rows = {}
    if file_slice.base_file is not None:
        rows = json.loads(storage.read(file_slice.base_file.path))
    changes = []
    undone: set[str] = set()
    for log in file_slice.log_files:
        content = storage.read(log.path)
        if content.startswith(b"{"):
            changes.append(json.loads(content))
            continue
        for block in scan_blocks(storage.open(log.path), file_name=log.path):
            if block.type is not BlockType.CORRUPT and block.is_rollback:
                undone.add(block.target_instant)
    seen = [change for change in changes if is_visible(change["instant"]) and change["instant"] not in undone]
    joined = {instant for change in seen for instant in change.get("replaces", ())}
    for change in seen:
        if change["instant"] not in joined:
            rows = _merge(rows, change["rows"])
    return rows


def _merge(rows: Rows, changes: dict[str, list[str] | None]) -> Rows:
    """Return rows after changes; None deletes a row."""
    merged = dict(rows)
    for key, tokens in changes.items():
        if tokens is None:
            merged.pop(key, None)
        else:
            merged[key] = [*merged.get(key, []), *tokens]
    return merged


def read_rows(table: TableState) -> list[tuple[str, list[str]]]:
    """Return the rows of the table as a query finds them, with every copy of a key."""
    table = reload_timeline(table)
    seen = load_visibility(table)
    found: list[tuple[str, list[str]]] = []
    for slices in list_merged_slices(table).values():
        for file_slice in slices:
            found += read_slice(table.storage, file_slice, seen.sees_time).items()
    return sorted(found)


def _write_file(table: TableState, change: Change, name: str, content: object) -> str:
    """Create a data file as a task does: marker, file, then a look whether the write is still open. Return its path."""
    path = join(PARTITION, name)
    announce(table.storage, BASE, change.time, [Marker(path, MarkerType.CREATE)])
    table.storage.write_new(join(BASE, path), json.dumps(content, sort_keys=True).encode())
    try:
        check_open(table.storage, BASE, change.time)
    except StorageError:
        table.storage.delete(join(BASE, path))
        raise
    return path


def _write_base(table: TableState, change: Change, file_id: str, rows: Rows, previous: str, inserts: int) -> WriteStat:
    """Write the next base file of a file group."""
    path = _write_file(table, change, base_file_name(file_id, mark_token("0-0-0", change.time), change.time), rows)
    return WriteStat(
        file_id, PARTITION, path, prev_commit=previous, num_writes=len(rows), num_inserts=inserts, total_write_bytes=10
    )


def _write_log(
    table: TableState, change: Change, file_slice: FileSlice, changes: object, replaces: Sequence[str] = ()
) -> WriteStat:
    """Add a log file to a file slice.

    Args:
        replaces: the instants whose log files it replaces.
    """
    names = [parse_log_name(file.name) for file in table.storage.list(join(BASE, PARTITION))]
    version = next_log_version([name for name in names if name is not None], file_slice.file_id, file_slice.base_instant)
    name = log_file_name(file_slice.file_id, file_slice.base_instant, version, mark_token("0-0-0", change.time))
    path = _write_file(table, change, name, {"instant": change.time, "rows": changes, "replaces": list(replaces)})
    return WriteStat(file_slice.file_id, PARTITION, path, prev_commit=file_slice.base_instant, num_writes=1, total_write_bytes=10)


# Writes


def write(table: TableState, operation: Write) -> None:
    """Run a write, again after each conflict."""
    for _ in range(RETRIES):
        try:
            current = roll_back_failed(table)
            if operation.name in ("delete_partition", "overwrite"):
                _replace(current, operation)
            else:
                _upsert(current, operation)
            return
        except CommitUnknown:
            raise
        except WriteConflict:
            continue
    raise Slow(operation)


def _extra(operation: Write) -> dict[str, str]:
    return {"model": json.dumps([operation.name, operation.key, operation.token])}


def _upsert(table: TableState, operation: Write) -> None:
    """Merge one row into the file group of its key, or add it to a new one. An insert looks for no key."""
    action = Action.DELTA_COMMIT if table.is_merge_on_read else Action.COMMIT
    with begin(table, action) as change:
        change.expect_schema(SCHEMA if table.timeline.writes else None)
        table = reload_timeline(table)
        change.plan_on(table.timeline)
        seen = load_visibility(table)
        slices = list_write_slices(table, [PARTITION], instant=change.time, logs_alone=True).get(PARTITION, [])
        rows_of = {}
        for file_slice in slices:
            rows_of[file_slice.file_id] = read_slice(table.storage, file_slice, seen.sees_time)
        home = next((s for s in slices if operation.key in rows_of[s.file_id] and operation.name != "insert"), None)
        if home is not None:
            resolve_clustering_conflicts(table, change, {(PARTITION, home.file_id)}, lambda *_: None)
        change.start()
        stats: list[WriteStat] = []
        tokens = None if operation.name == "delete" else [operation.token]
        if home is not None and table.is_merge_on_read:
            stats = [_write_log(table, change, home, {operation.key: tokens})]
        elif home is not None:
            rows = _merge(rows_of[home.file_id], {operation.key: tokens})
            stats = [_write_base(table, change, home.file_id, rows, home.base_instant, 0)]
        elif tokens is not None:
            stats = [_write_base(table, change, _new_id(operation.token), {operation.key: tokens}, "null", 1)]

        def check_new_keys(commits: Sequence[ConcurrentCommit]) -> None:
            """Raise WriteConflict if a concurrent commit inserted the key, as `write/locate/key_collisions.py` does."""
            if home is not None or operation.name != "upsert":
                return
            new = {stat.file_id for commit in commits for stat in commit.metadata.stats if stat.num_inserts > 0}
            now = reload_timeline(table)
            for file_slice in list_merged_slices(now, [PARTITION]).get(PARTITION, []):
                found = read_slice(table.storage, file_slice, load_visibility(now).sees_time)
                if file_slice.file_id in new and operation.key in found:
                    raise WriteConflict("another write inserted the key")

        change.complete(stats, operation=Operation.UPSERT, schema=SCHEMA, extra=_extra(operation), check=check_new_keys)


def _replace(table: TableState, operation: Write) -> None:
    """Replace all file groups of the partition, by one with a row or by nothing."""
    with begin_replace(table) as change:
        change.expect_schema(SCHEMA if table.timeline.writes else None)
        stats: list[WriteStat] = []
        table = reload_timeline(table)
        if operation.name == "overwrite":
            change.start()
            stats = [_write_base(table, change, _new_id(operation.token), {operation.key: [operation.token]}, "null", 1)]
            table = reload_timeline(table)
        change.plan_on(table.timeline)
        replaced = list_replaced_groups(table, [PARTITION])
        groups = {(path, file_id) for path, file_ids in replaced.items() for file_id in file_ids}
        resolve_clustering_conflicts(table, change, groups, lambda *_: None)
        if operation.name == "delete_partition":
            change.start()
        kind = Operation.INSERT_OVERWRITE if stats else Operation.DELETE_PARTITION
        change.complete(stats, operation=kind, schema=SCHEMA, extra=_extra(operation), replaced=replaced)


def _new_id(token: str) -> str:
    """Return the id of a new file group. Of a write that runs again it is another file of the same group."""
    return f"{token:0>8}-0000-0000-0000-000000000000-0"


# Services


@dataclass(frozen=True)
class ModelTask:
    """The slices that are rewritten together."""

    slices: tuple[FileSlice, ...]


class ModelCompaction(Compaction):
    """Compaction with rows as JSON."""

    def make_tasks(self, run: PlanRun[Any]) -> Any:
        folders = list_folders(run.table, run.plan)
        operations = remaining_operations(run.table, run.time, run.plan, folders)
        return [ModelTask((whole_slice(BASE, each, folders[each.partition_path]),)) for each in operations]

    def run_kernels(self, run: PlanRun[Any], tasks: Any, runner: Any) -> list[WriteStat]:
        return _rewrite(run, tasks, keeps_group=True)


class ModelClustering(Clustering):
    """Clustering with rows as JSON."""

    def make_tasks(self, run: PlanRun[Any]) -> Any:
        return [ModelTask(tuple(group)) for group in planned_slices(run.table, run.time, run.plan)]

    def run_kernels(self, run: PlanRun[Any], tasks: Any, runner: Any) -> list[WriteStat]:
        return _rewrite(run, tasks, keeps_group=False)


class ModelLogCompaction(LogCompaction):
    """Log compaction with rows as JSON: one more log file, which replaces those before it."""

    def make_plan(self, table: TableState) -> CompactionPlan | None:
        busy = find_pending_groups(table).keys()
        slices = slices_with_logs(list_groups(table), load_visibility(table), busy)
        many = [plan_operation(each, 1 << 20) for each in slices if len(each.log_files) > 1]
        return CompactionPlan(tuple(many), preserves_meta=True) if many else None

    def make_tasks(self, run: PlanRun[Any]) -> Any:
        folders = list_folders(run.table, run.plan)
        tasks = []
        for operation in remaining_operations(run.table, run.time, run.plan, folders):
            files = folders[operation.partition_path]
            named = named_slice(BASE, operation, files.sizes)
            if not unnamed_logs(named, files):
                tasks.append(ModelTask((named,)))
        return tasks

    def run_kernels(self, run: PlanRun[Any], tasks: Any, runner: Any) -> list[WriteStat]:
        seen = load_visibility(run.table)
        stats = []
        for task in tasks:
            (file_slice,) = task.slices
            contents = [run.table.storage.read(log.path) for log in file_slice.log_files]
            logs = [json.loads(content) for content in contents if content.startswith(b"{")]
            joined = {instant for log in logs for instant in log["replaces"] if seen.sees_time(log["instant"])}
            rows: dict[str, Any] = {}
            for log in logs:
                if seen.sees_time(log["instant"]) and log["instant"] not in joined:
                    rows = _merge(rows, log["rows"])
            change: Any = _Named(run.time)
            stats.append(_write_log(run.table, change, file_slice, rows, replaces=[log["instant"] for log in logs]))
        return stats


def _rewrite(run: PlanRun[Any], tasks: Sequence[ModelTask], *, keeps_group: bool) -> list[WriteStat]:
    """Write the rows of each task to one base file."""
    table = run.table
    seen = load_visibility(table)
    stats = []
    for number, task in enumerate(tasks):
        rows: Rows = {}
        for file_slice in task.slices:
            rows |= read_slice(table.storage, file_slice, seen.sees_time)
        file_id = task.slices[0].file_id if keeps_group else _new_id(f"{number}{run.time[-6:]}")
        # The run's change is open: its instant is that of the plan.
        change: Any = _Named(run.time)
        stats.append(_write_base(table, change, file_id, rows, task.slices[0].base_instant if keeps_group else "null", 0))
    return stats


@dataclass(frozen=True)
class _Named:
    time: str


def compact(table: TableState) -> None:
    """Plan a compaction and run it."""
    schedule_and_run(None, table, ModelCompaction(), QUIET, due=True)  # type: ignore[arg-type]


def join_logs(table: TableState) -> None:
    """Plan a log compaction and run it."""
    schedule_and_run(None, table, ModelLogCompaction(), QUIET, due=True)  # type: ignore[arg-type]


def run_compactions(table: TableState) -> None:
    """Run the pending compactions of other processes."""
    run_pending(None, table, ModelCompaction(), QUIET)  # type: ignore[arg-type]


def run_log_compactions(table: TableState) -> None:
    """Run the pending log compactions of other processes."""
    run_pending(None, table, ModelLogCompaction(), QUIET)  # type: ignore[arg-type]


def cluster(table: TableState) -> None:
    """Plan a clustering and run it."""
    schedule_and_run(None, table, ModelClustering(), QUIET, due=True)  # type: ignore[arg-type]


def run_clean(table: TableState) -> None:
    """Roll back dead writers, and delete old versions."""
    clean(None, reload_timeline(table), QUIET, due=True)


def run_archive(table: TableState) -> None:
    """Archive old commits."""
    archive(reload_timeline(table))


def roll_back_newest(table: TableState) -> None:
    """Roll back the newest commit."""
    newest = reload_timeline(table).timeline.last_write
    if newest is not None:
        roll_back_to(table, newest.time)


def save_newest(table: TableState) -> None:
    """Create a savepoint of the newest commit."""
    create_savepoint(table)


def restore_saved(table: TableState) -> None:
    """Restore the table to its newest savepoint."""
    restore(None, table, list_savepoint_times(reload_timeline(table))[-1], QUIET)

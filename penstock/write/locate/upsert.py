"""How an upsert or delete is carried out: which tasks there are, and what each does.

A partition with one file group and a moderate share is one task, which opens the base file once, finds the keys, merges and
adds the new rows. In a merge-on-read table it reads the key column alone and appends what changed to the group's log, unless
new rows fill up the base file, which is then rewritten with all changes (`append.py`). Where a partition has several file
groups, or keys are looked for in all partitions, the keys are located first (`tag.py`), new rows are assigned, and then every
touched file group is one task. Either way a task reads its rows from the staged files; nothing crosses from the JVM a second
time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.log.write import LogSettings
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.filegroup.slice_rows import MergeRules
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.index import Index
from penstock.index.lookup import Keys, look_up, may_hold
from penstock.merge.choice import Fate
from penstock.merge.kernels.gather import Positions
from penstock.merge.merger import Merger
from penstock.options.operation import Operation
from penstock.spread.runner import Runner
from penstock.storage import join
from penstock.timeline.commit_file import CommitMetadata, WriteStat, workload_profile
from penstock.write.locate.assign import Sizing, small_files
from penstock.write.locate.entries import Asked, SortTask, sort_answers, sort_task, sorts_here
from penstock.write.locate.tag import InsertsTask, TagTask, find_inserts, read_hits, read_inserts, tag_files
from penstock.write.rows.crossing import KEY
from penstock.write.rows.staging import Piece
from penstock.write.rows.task_rows import TaskRows, TaskRowsSettings, choose_task_rows, load_task_rows
from penstock.write.tasks.base_file import NO_HITS, FileMerge, Hits, merge_file, row_group_parts
from penstock.write.tasks.insert import open_output
from penstock.write.tasks.log_file import NO_ROWS, Append, LogGroups, append_hits, new_groups

#: The key under which a commit keeps what its index did.
INDEX_FIGURES = "penstock.index"
#: Base files that one tagging task looks into.
_FILES_PER_TAG = 10
#: Rows whose numbers are compared on the driver, sooner than a Spark job starts.
_ROWS_COUNTED_HERE = 2_000_000
#: A share beyond this goes through tagging, so that its new rows spread over several tasks.
_SHARE_BYTES_PER_TASK = 256 * 1024 * 1024


@dataclass(frozen=True)
class UpsertRules:
    """What holds for every task of one upsert or delete."""

    settings: FileSettings
    loading: TaskRowsSettings
    merger: Merger
    sizing: Sizing
    index: Index
    #: The column that says which of several rows of a key is newer, of the batch and of a log; None: the later one is.
    ordering: str | None = None
    #: How log files are written; None: the table is copy-on-write.
    logs: LogSettings | None = None
    #: How base files and logs become rows, likewise.
    merging: MergeRules | None = None
    #: Rows with unknown keys are dropped, not inserted: the delete operation.
    drops_unknown: bool = False
    #: Rows with known keys are dropped, not merged: an insert without duplicates.
    drops_known: bool = False
    #: Rows are added without a look at their keys: an insert into buckets.
    adds: bool = False
    #: Buckets of a merge-on-read table begin with a log, not with a base file.
    logs_first: bool = False


@dataclass(frozen=True)
class PartitionTask:
    """A whole partition: at most one file group, and all incoming rows."""

    rules: UpsertRules
    path: str
    pieces: tuple[Piece, ...]
    base: BaseFile | None
    #: What changes are appended to, in a merge-on-read table.
    log: FileSlice | None = None


@dataclass(frozen=True)
class GroupTask:
    """One file group whose changes are known: hits of tagging, and new rows by their place in the list of inserts."""

    rules: UpsertRules
    path: str
    pieces: tuple[Piece, ...]
    base: BaseFile | None = None
    hits: tuple[str, int] | None = None
    inserts: tuple[str, int, int] | None = None
    #: What changes are appended to; None: the base file is rewritten with them.
    log: FileSlice | None = None
    #: The file that lists rows which are not to come alive where a log has deleted them.
    settled: str | None = None

    @property
    def file_id(self) -> str | None:
        """The file group; None for new ones."""
        known = self.base or self.log
        return known.file_id if known else None


@dataclass(frozen=True)
class TaskPlan:
    """The tasks of an upsert, and what they are expected to do."""

    tasks: tuple[Any, ...]
    profile: CommitMetadata
    #: Figures of the index, for reports.
    tagging: Mapping[str, int] = field(default_factory=dict)
    #: The index that was used and, where it was chosen, why.
    index: str = ""
    why: str = ""

    def figures(self) -> str:
        """What a commit keeps of this, under `INDEX_FIGURES`."""
        return json.dumps({"index": self.index, **({"why": self.why} if self.why else {}), **self.tagging})

    @property
    def touched(self) -> set[tuple[str, str]]:
        """(partition path, file id) of file groups that are changed, or may be."""
        return {(task.path, known.file_id) for task in self.tasks if (known := task.base or task.log)}


def run_task(task: PartitionTask | GroupTask) -> list[WriteStat]:
    """Kernel: write what a task is about; gives its write stats."""
    output = open_output(task.rules.settings)
    stats = _run_partition(output, task) if isinstance(task, PartitionTask) else _run_group(output, task)
    output.finish()
    return stats


def _run_partition(output: TaskOutput, task: PartitionTask) -> list[WriteStat]:
    """Tag, assign and merge in one read of the base file."""
    rules = task.rules
    incoming = load_task_rows(rules.loading, task.pieces)
    if task.log is not None:
        stats, left = _append_to_only(output, task.log, rules, incoming)
    elif task.base is not None:
        stats, left = _merge_into_only(output, task.path, task.base, rules, incoming)
    else:
        stats, left = [], incoming.rows
    if len(left) and not rules.drops_unknown:
        stats += _new_groups(output, task.path, rules, incoming, left)
    return stats


def _merge_into_only(
    output: TaskOutput, path: str, base: BaseFile, rules: UpsertRules, incoming: TaskRows
) -> tuple[list[WriteStat], Positions]:
    """A share merged into the partition's only base file; gives the rows that are new and did not fit as well."""
    room = 0 if rules.drops_unknown else _room(base, rules.sizing)
    if not room and not may_hold(rules.settings.storage, base, Keys(incoming.keys), rules.index.pruning):
        return [], incoming.rows
    merged = merge_file(output, FileMerge(path, base, rules.merger), incoming, room)
    return [merged.stat], np.setdiff1d(incoming.rows, merged.met, assume_unique=True)[room:]


def _append_to_only(
    output: TaskOutput, log: FileSlice, rules: UpsertRules, incoming: TaskRows
) -> tuple[list[WriteStat], Positions]:
    """A share appended to the partition's only slice, or merged into its base file if new rows fill that up."""
    bases = [log.base_file] if log.base_file else []
    found = look_up(rules.settings.storage, bases, Keys(incoming.keys), rules.index.pruning)
    hits = Hits(found[0].old, incoming.rows[found[0].key], np.full(len(found[0].old), Fate.MERGE, np.int8)) if found else NO_HITS
    left = np.setdiff1d(incoming.rows, hits.new)
    small = [] if rules.drops_unknown or not len(left) else small_files([log], rules.sizing)
    for target in small:
        if target.base_file and (room := rules.sizing.room(target)):
            merge = FileMerge(log.partition_path, target.base_file, rules.merger, hits)
            return [merge_file(output, merge, incoming, left[:room]).stat], left[room:]
    return _append(output, log, rules, incoming, hits), left


def _append(
    output: TaskOutput, log: FileSlice, rules: UpsertRules, incoming: TaskRows, hits: Hits, inserts: Positions = NO_ROWS
) -> list[WriteStat]:
    if rules.logs is None or not (len(hits.new) or len(inserts)):
        return []
    return append_hits(output, Append(log, rules.logs, rules.merger, rules.ordering), incoming, hits, inserts)


def _room(base: BaseFile, sizing: Sizing) -> int:
    """Rows that a base file still takes."""
    if sizing.small_file_limit <= 0 or base.size_bytes >= sizing.small_file_limit:
        return 0
    return max(0, sizing.max_file_bytes - base.size_bytes) // sizing.record_bytes


def _run_group(output: TaskOutput, task: GroupTask) -> list[WriteStat]:
    rules, storage = task.rules, task.rules.loading.staging.storage
    inserts = read_inserts(storage, *task.inserts) if task.inserts else NO_ROWS
    hits = read_hits(storage, *task.hits, task.settled) if task.hits else NO_HITS
    incoming = choose_task_rows(rules.loading, task.pieces, np.concatenate([hits.new, inserts]))
    if task.log is not None:
        return _append(output, task.log, rules, incoming, hits, inserts)
    if task.base is None:
        return _new_groups(output, task.path, rules, incoming, inserts)
    merge = FileMerge(task.path, task.base, rules.merger, hits)
    return [merge_file(output, merge, incoming, inserts).stat]


def _new_groups(output: TaskOutput, path: str, rules: UpsertRules, incoming: TaskRows, numbers: Positions) -> list[WriteStat]:
    """New rows to new file groups."""
    size = rules.sizing.rows_per_group
    parts = (numbers[start : start + size] for start in range(0, len(numbers), size))
    return [stat for part in parts for stat in write_new_rows(new_groups(output, path, rules.logs), rules.merger, incoming, part)]


def write_new_rows(writer: RollingWriter | LogGroups, merger: Merger, incoming: TaskRows, numbers: Positions) -> list[WriteStat]:
    """New rows to file groups as the writer opens them; deletes of unknown keys are only counted, and alone make no file."""
    deletes = 0
    for part in row_group_parts(numbers):
        rows = incoming.take(part)
        kept, stored = merger.insert(rows.drop_columns([KEY]))
        deletes += len(part) - stored.num_rows
        writer.write(stored, rows[KEY].filter(pa.array(kept)))
    return [replace(stat, num_deletes=deletes if i == 0 else 0) for i, stat in enumerate(writer.close())]


def plan_work(
    rules: UpsertRules,
    pieces: Sequence[Piece],
    slices: Mapping[str, Sequence[FileSlice]],
    operation: Operation,
    runner: Runner,
    *,
    apart: bool = False,
    asked: Asked | None = None,
) -> TaskPlan:
    """Decide on the tasks; locates keys first where that is needed.

    Args:
        apart: locate all keys first, so that every count is known before anything is written.
        asked: what an index that keeps entries said about the keys.
    """
    shares = _by_path(pieces)
    together = {p: its for p, its in shares.items() if not apart and _is_one_task(rules, its, slices.get(p, ()))}
    tasks: list[PartitionTask | GroupTask] = [
        PartitionTask(rules, path, tuple(its), _only(slices.get(path, ())), _log(rules, next(iter(slices.get(path, ())), None)))
        for path, its in together.items()
    ]
    inserts = {path: sum(p.rows for p in its) if not slices.get(path) else 0 for path, its in together.items()}
    updates = [
        (path, base.file_id, base.instant, sum(p.rows for p in its))
        for path, its in together.items()
        if (base := _only(slices.get(path, ()))) is not None
    ]
    located = _locate(rules, _shares_apart(rules, pieces, together), slices, runner, asked)
    for path, _, _, _ in located.updates:
        inserts.setdefault(path, 0)
    inserts |= {p: inserts.get(p, 0) + n for p, n in located.inserts.items()}
    tasks = sorted([*tasks, *located.tasks], key=_weight, reverse=True)
    profile = workload_profile(operation, inserts, [*updates, *located.updates])
    tagging = {**located.tagging, "read_once": len(together)}
    return TaskPlan(tuple(tasks), profile, tagging, rules.index.name)


def _shares_apart(
    rules: UpsertRules, pieces: Sequence[Piece], together: Mapping[str, Sequence[Piece]]
) -> list[tuple[Piece, ...]]:
    """What has to be located first: a share per partition, or one of all rows where keys are looked for everywhere."""
    if rules.index.is_global:
        return [tuple(pieces)] if pieces else []
    return [tuple(its) for path, its in _by_path(pieces).items() if path not in together]


def _by_path(pieces: Sequence[Piece]) -> dict[str, list[Piece]]:
    found: dict[str, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(piece.path, []).append(piece)
    return found


def _is_one_task(rules: UpsertRules, pieces: Sequence[Piece], slices: Sequence[FileSlice]) -> bool:
    if rules.index.is_global or ((rules.drops_known or rules.index.sees_logs) and slices):
        return False
    if any((one.partition_path, one.file_id) in rules.sizing.busy for one in slices):
        return False  # which rows it holds has to be known before anything is written
    return len(slices) <= 1 and sum(p.size_bytes for p in pieces) <= _SHARE_BYTES_PER_TASK


def _only(slices: Sequence[FileSlice]) -> BaseFile | None:
    return slices[0].base_file if slices else None


def _log(rules: UpsertRules, slice_: FileSlice | None) -> FileSlice | None:
    """The slice that changes are appended to, if the table has logs."""
    return slice_ if rules.logs is not None else None


def _weight(task: PartitionTask | GroupTask) -> int:
    return (task.base.size_bytes if task.base else 0) + sum(p.size_bytes for p in task.pieces)


@dataclass(frozen=True)
class _Located:
    tasks: list[GroupTask]
    inserts: dict[str, int]
    updates: list[tuple[str, str, str, int]]
    tagging: dict[str, int]


def _locate(
    rules: UpsertRules,
    shares: Sequence[tuple[Piece, ...]],
    slices: Mapping[str, Sequence[FileSlice]],
    runner: Runner,
    asked: Asked | None = None,
) -> _Located:
    """Tag the shares, find their new rows and assign those. Two jobs, however many shares there are."""
    tasks, tagged = _tagged(rules, shares, slices, runner) if asked is None else _sorted(rules, shares, slices, runner, asked)
    groups: dict[tuple[str, str], GroupTask] = {}
    updates: list[tuple[str, str, str, int]] = []
    for task, result in ((t, r) for pair in zip(tasks, tagged, strict=True) for t, r in zip(*pair, strict=True)):
        for batch, (found, count) in enumerate(zip(task.files, result["counts"], strict=True)):
            path, base = found.partition_path, found.base_file
            if count and not rules.drops_known:
                hits = result["out"], batch
                groups[path, found.file_id] = GroupTask(rules, path, task.pieces, base, hits, log=_log(rules, found))
                updates.append((path, found.file_id, base.instant if base else found.base_instant, count))
    inserts: dict[str, int] = {}
    if not rules.drops_unknown:
        outs = [tuple(result["out"] for result in its) for its in tagged]
        are_few = sum(p.rows for share in shares for p in share) <= _ROWS_COUNTED_HERE
        counter = runner.at_driver() if are_few else runner
        results = counter.run(find_inserts, _insert_tasks(rules, shares, outs), dict[str, Any])
        for share, new in zip(shares, results, strict=True):
            if new["settled"]:
                groups |= {at: replace(g, settled=new["out"]) for at, g in groups.items() if g.pieces == share}
            inserts |= _assign_new(rules, share, slices, groups, new["out"], new["counts"])
    tagging = {
        "files": sum(len(task.files) for its in tasks for task in its),
        "holding": sum(count > 0 for its in tagged for result in its for count in result["counts"]),
        "opened": sum(result["opened"] for its in tagged for result in its),
        "candidates": sum(result["candidates"] for its in tagged for result in its),
        "rows": sum(its[0]["rows"] for its in tagged),
    }
    return _Located(list(groups.values()), inserts, updates, tagging)


def _tagged(
    rules: UpsertRules, shares: Sequence[tuple[Piece, ...]], slices: Mapping[str, Sequence[FileSlice]], runner: Runner
) -> tuple[Sequence[Sequence[TagTask | SortTask]], list[list[dict[str, Any]]]]:
    """Hits by base files: the tasks of each share, and what they gave."""
    tasks = [tag_tasks(rules, share, slices, number) for number, share in enumerate(shares)]
    results = iter(runner.run(tag_files, [task for its in tasks for task in its], dict[str, Any]))
    return tasks, [[next(results) for _ in its] for its in tasks]


def _sorted(
    rules: UpsertRules,
    shares: Sequence[tuple[Piece, ...]],
    slices: Mapping[str, Sequence[FileSlice]],
    runner: Runner,
    asked: Asked,
) -> tuple[Sequence[Sequence[TagTask | SortTask]], list[list[dict[str, Any]]]]:
    """Hits by what an index said, in the same form. It looks in all partitions, so there is one share."""
    tasks = [sort_task(asked, rules.loading, share, slices) for share in shares]
    sorter = runner.at_driver() if sorts_here(asked) else runner
    results = sorter.run(sort_answers, tasks, dict[str, Any])
    return [[task] for task in tasks], [[result] for result in results]


def tag_tasks(
    rules: UpsertRules,
    share: tuple[Piece, ...],
    slices: Mapping[str, Sequence[FileSlice]],
    number: int,
    *,
    logs_alone: bool = False,
) -> list[TagTask]:
    """What is looked for where: the files that a share's keys may be in, some of them a task.

    Args:
        logs_alone: slices without a base file as well.
    """
    paths = list(slices) if rules.index.is_global else sorted({p.path for p in share})
    files = [s for path in paths for s in slices.get(path, ()) if s.base_file or logs_alone]
    chunks = [tuple(files[i : i + _FILES_PER_TAG]) for i in range(0, len(files), _FILES_PER_TAG)] or [()]
    return [
        TagTask(
            pieces=share,
            files=chunk,
            loading=rules.loading,
            pruning=rules.index.pruning,
            merger=rules.merger,
            moves=rules.index.moves and not rules.drops_known,
            out=join(rules.loading.staging.folder, f"tagged-{number}-{i}"),
            lists_rows=i == 0,
            merging=rules.merging,
        )
        for i, chunk in enumerate(chunks)
    ]


def _insert_tasks(rules: UpsertRules, shares: Sequence[tuple[Piece, ...]], outs: Sequence[tuple[str, ...]]) -> list[InsertsTask]:
    staging, revives = rules.loading.staging, not (rules.drops_known or rules.index.is_global)
    return [
        InsertsTask(staging.storage, share, tagged, join(staging.folder, f"inserts-{number}"), revives)
        for number, (share, tagged) in enumerate(zip(shares, outs, strict=True))
    ]


def _assign_new(
    rules: UpsertRules,
    share: tuple[Piece, ...],
    slices: Mapping[str, Sequence[FileSlice]],
    groups: dict[tuple[str, str], GroupTask],
    out: str,
    counts: Sequence[tuple[str, int]],
) -> dict[str, int]:
    """Give every new row a file group: small ones first, then new ones. Adds to `groups`.

    Args:
        out: the file that lists the new rows.
        counts: how many each partition path has, in the order of that list.
    """
    offset = 0
    for path, count in counts:
        end = offset + count
        for target in small_files(slices.get(path, ()), rules.sizing):
            fits = min(rules.sizing.room(target), end - offset)
            if fits:
                known = groups.get((path, target.file_id)) or GroupTask(rules, path, share, target.base_file)
                log = target if rules.sizing.log_ratio is not None else None
                groups[path, target.file_id] = replace(known, inserts=(out, offset, fits), log=log)
                offset += fits
        while offset < end:
            rows = min(rules.sizing.rows_per_group, end - offset)
            groups[path, f"new-{offset}"] = GroupTask(rules, path, share, inserts=(out, offset, rows))
            offset += rows
    return {path: count for path, count in counts if count}

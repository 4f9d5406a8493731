"""Finds keys that this write and a concurrent commit both insert.

Hudi, Delta and Iceberg let both rows in, because the two writes touch different files. This check reads only the files to which
concurrent commits added rows. If it finds a key of this write in them, both inserted it: the key was not stored when this write
located its keys.

The check costs nothing unless another commit added rows to the same partition. Then it costs at most reading the keys of the
files with these rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from penstock import options as o
from penstock.commit.overlap import ConcurrentCommit, GroupId
from penstock.commit.seen_commits import Look
from penstock.errors import WriteConflict
from penstock.filegroup.model import FileSlice
from penstock.progress import format_count
from penstock.table.state import reload_timeline
from penstock.workers.runner import Runner
from penstock.write.context import WriteContext
from penstock.write.locate.file_slices import list_write_slices
from penstock.write.locate.tag import TagResult, TagTask, plan_tag_tasks, tag_slices
from penstock.write.rows.staging import Piece
from penstock.write.tasks.task import UpsertRules

#: Numbers in the names of hit files, so that the names differ from those of the tagging before and of an earlier check.
_NUMBERS = itertools.count(1_000_000)


def look_for_new_keys(write: WriteContext, rules: UpsertRules, pieces: Sequence[Piece], runner: Runner) -> Look | None:
    """Return the check for keys that both this write and a concurrent commit insert; None if no check is needed.

    The check is made later, when the write publishes its commit. A delete needs none, because it inserts nothing. An index with
    buckets needs none, because two writes to one bucket are a conflict in any case.

    Args:
        pieces: where the staged rows of this write are. A piece is consecutive rows of a staged file.
    """
    if rules.drops_unknown or rules.index.buckets is not None:
        return None
    paths = {piece.path for piece in pieces}
    partitions = None if rules.index.is_global else paths
    return Look(
        concerns=lambda commits: bool(_groups_with_inserts(commits, partitions)),
        check=lambda commits: _check_new_keys(write, rules, pieces, runner, _groups_with_inserts(commits, partitions)),
    )


def _check_new_keys(
    write: WriteContext,
    rules: UpsertRules,
    pieces: Sequence[Piece],
    runner: Runner,
    groups: Mapping[GroupId, ConcurrentCommit],
) -> None:
    """Raise WriteConflict if a concurrent commit inserted a key that this write inserts too.

    Args:
        pieces: where the staged rows of this write are. A piece is consecutive rows of a staged file.
        groups: the file groups to which concurrent commits added rows, each with its commit.
    """
    slices = _list_slices(write, rules, groups)
    for task, result in _look_for_keys(rules, pieces, slices, runner):
        for file_slice, hits in zip(task.slices, result.hits, strict=True):
            if hits:
                other = groups[file_slice.partition_path, file_slice.file_id]
                raise WriteConflict(
                    f"write {rules.settings.instant} of {write.table.base_path} lost to {other}, which completed first: both "
                    f"inserted {format_count(hits, 'key')}, which are in file group {file_slice.file_id} of partition "
                    f"{file_slice.partition_path!r}. Run the write again, or let it do so: set {o.CONFLICT_RETRIES.key}",
                    other_instant=other.instant.time,
                )


def _groups_with_inserts(
    commits: Sequence[ConcurrentCommit], partitions: Collection[str] | None
) -> dict[GroupId, ConcurrentCommit]:
    """Return the file groups to which these commits added rows, as (partition path, file id) → the last commit that added rows.

    Args:
        commits: concurrent commits, oldest first.
        partitions: the partition paths to consider; None for all.
    """
    groups: dict[GroupId, ConcurrentCommit] = {}
    for commit in commits:
        for stat in commit.metadata.stats:
            is_considered = partitions is None or (stat.partition_path or "") in partitions
            if stat.num_inserts > 0 and is_considered:
                groups[stat.partition_path or "", stat.file_id] = commit
    return groups


def _list_slices(write: WriteContext, rules: UpsertRules, groups: Collection[GroupId]) -> dict[str, list[FileSlice]]:
    """Return the latest file slices of these file groups, by partition path."""
    table = reload_timeline(write.table)
    partitions = sorted({path for path, _ in groups})
    listed = list_write_slices(table, partitions, instant=rules.settings.instant, logs_alone=True)
    slices: dict[str, list[FileSlice]] = {}
    for path, slices_of_partition in listed.items():
        slices[path] = [file_slice for file_slice in slices_of_partition if (path, file_slice.file_id) in groups]
    return slices


def _look_for_keys(
    rules: UpsertRules, pieces: Sequence[Piece], slices: dict[str, list[FileSlice]], runner: Runner
) -> list[tuple[TagTask, TagResult]]:
    """Look for the keys of the staged rows in file slices, in one job.

    Return each task with its result, which says how many of the keys each slice of the task holds.

    Args:
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
        slices: the file slices, by partition path.
    """
    sets: list[tuple[Piece, ...]] = [tuple(pieces)]
    if not rules.index.is_global:
        sets = [tuple(piece for piece in pieces if piece.path == path) for path in slices]
    tasks: list[TagTask] = []
    for pieces_of_set in sets:
        tasks += plan_tag_tasks(rules, pieces_of_set, slices, next(_NUMBERS), with_logs_alone=True)
    return list(zip(tasks, runner.run(tag_slices, tasks, TagResult), strict=True))

"""Runs the two jobs that locate the keys of staged rows: one finds the stored rows with the same keys, the other lists new rows.

The first job reads base files (`tag.py`). With an index that keeps entries in a store, it instead sorts the file groups that the
entries named (`entries.py`). Both write hit files: pairs of stored and incoming row numbers with the same key. The second job
(`new_rows.py`) reads all hit files. It compares row numbers only, so the driver runs it unless there are more than two million
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.filegroup.model import FileSlice
from penstock.storage import join
from penstock.workers.runner import Runner
from penstock.write.locate.entries import EntryAnswers, SortTask, make_sort_task, sort_answers, sorts_on_driver
from penstock.write.locate.new_rows import NewRowsResult, NewRowsTask, find_new_rows
from penstock.write.locate.tag import TagResult, TagTask, plan_tag_tasks, tag_slices
from penstock.write.rows.staging import Piece
from penstock.write.tasks.located_rows import HitBatch
from penstock.write.tasks.task import UpsertRules

#: Up to this many rows the driver lists the new rows. Arrays of this length take a few MB, and less time than a Spark job.
_ROWS_ON_DRIVER = 2_000_000


@dataclass(frozen=True)
class SliceHits:
    """A file slice that holds keys of incoming rows, and where the pairs of its stored rows and the incoming rows are listed.

    A pair of rows with the same key is called a hit. The task that writes the slice reads the hits.
    """

    file_slice: FileSlice
    #: The number of hits: pairs of a stored and an incoming row with the same key.
    rows: int
    #: The hit file and the record batch in it that list the hits.
    batch: HitBatch


@dataclass(frozen=True)
class LocatedPieces:
    """The located keys of one set of incoming rows: the slices that hold some of the keys, and the rows whose keys are new.

    A set is the incoming rows of one partition; with a global index it is all incoming rows.
    """

    pieces: tuple[Piece, ...]
    #: The slices with at least one hit (pair of a stored and an incoming row with the same key).
    hits: tuple[SliceHits, ...]
    #: The file that lists the new rows; None if the write drops new rows (delete).
    new_rows: NewRowsResult | None


@dataclass(frozen=True)
class LocatedKeys:
    """The result of locating all incoming keys: one `LocatedPieces` per set of incoming rows, and counts for reports.

    A set is the incoming rows of one partition; with a global index it is all incoming rows.
    """

    sets: list[LocatedPieces]
    #: How many files were read and keys compared, for reports.
    index_counts: dict[str, int]


def locate_keys(
    rules: UpsertRules,
    piece_sets: Sequence[tuple[Piece, ...]],
    slices: Mapping[str, Sequence[FileSlice]],
    runner: Runner,
    answers: EntryAnswers | None = None,
) -> LocatedKeys:
    """Find the stored rows that have an incoming key, and list the incoming rows whose keys are new.

    Runs two jobs for all sets together: one finds the stored rows, the other lists the new rows. The results are in files; the
    returned object names them.

    Args:
        piece_sets: where the incoming rows are: one set of pieces per partition; with a global index, a single set of all pieces.
            A piece is consecutive rows of a staged file.
        slices: the file slices that may hold the keys, by partition path.
        runner: runs the jobs in Spark or on the driver.
        answers: which file group the index entry of each incoming key names, for an index that keeps entries in a store. None:
            keys are read from base files.
    """
    tasks: Sequence[Sequence[TagTask | SortTask]]
    if answers is None:
        tasks, results = _tag(rules, piece_sets, slices, runner)
    else:
        tasks, results = _sort_answers(rules, piece_sets, slices, runner, answers)
    new_rows = None if rules.drops_unknown else _find_new_rows(rules, piece_sets, results, runner)
    located = []
    for number, pieces in enumerate(piece_sets):
        hits = _list_hits(tasks[number], results[number])
        located.append(LocatedPieces(pieces, tuple(hits), new_rows[number] if new_rows else None))
    return LocatedKeys(located, _sum_up(tasks, results))


def _tag(
    rules: UpsertRules, piece_sets: Sequence[tuple[Piece, ...]], slices: Mapping[str, Sequence[FileSlice]], runner: Runner
) -> tuple[list[list[TagTask]], list[list[TagResult]]]:
    """Look for the incoming keys in base files, in one job for all sets of incoming rows.

    A set is the rows of one partition; with a global index, all rows. It is given as pieces (consecutive rows of a staged
    file). Return two lists, of tasks and of their results. Each has one inner list per set.
    """
    tasks = [plan_tag_tasks(rules, pieces, slices, number) for number, pieces in enumerate(piece_sets)]
    all_tasks: list[TagTask] = []
    for tasks_of_set in tasks:
        all_tasks += tasks_of_set
    all_results = iter(runner.run(tag_slices, all_tasks, TagResult))  # one job for all sets
    results = [[next(all_results) for _ in tasks_of_set] for tasks_of_set in tasks]
    return tasks, results


def _sort_answers(
    rules: UpsertRules,
    piece_sets: Sequence[tuple[Piece, ...]],
    slices: Mapping[str, Sequence[FileSlice]],
    runner: Runner,
    answers: EntryAnswers,
) -> tuple[list[list[SortTask]], list[list[TagResult]]]:
    """Write hit files from the results of looking up index entries, with one task per set of incoming rows.

    A hit file lists pairs of a stored and an incoming row with the same key. A set is the rows of one partition; with a global
    index, all rows. It is given as pieces (consecutive rows of a staged file). Return two lists, of tasks and of their results.
    Each has one inner list per set.

    Args:
        answers: which file group the index entry of each incoming key names.
    """
    tasks = [make_sort_task(answers, rules.loading, pieces, slices) for pieces in piece_sets]
    sorter = runner.at_driver() if sorts_on_driver(answers) else runner
    results = sorter.run(sort_answers, tasks, TagResult)
    return [[task] for task in tasks], [[result] for result in results]


def _find_new_rows(
    rules: UpsertRules, piece_sets: Sequence[tuple[Piece, ...]], results: Sequence[Sequence[TagResult]], runner: Runner
) -> list[NewRowsResult]:
    """Find the incoming rows whose keys are new to the table. Return, for each set of incoming rows, the file that lists them.

    A set is the rows of one partition; with a global index, all rows. It is given as pieces (consecutive rows of a staged
    file).

    Args:
        results: the results of the locating tasks of each set. They name the hit files.
    """
    staging = rules.loading.staging
    # With a global index the living version of a row that is dead in one partition may be in another partition. Then the
    # incoming row belongs there, so it must not be revived where it is dead.
    revives = not (rules.drops_known or rules.index.is_global)
    tasks = []
    rows = 0
    for number, (pieces, results_of_set) in enumerate(zip(piece_sets, results, strict=True)):
        hit_files = tuple(result.hit_file for result in results_of_set)
        tasks.append(NewRowsTask(staging.storage, pieces, hit_files, join(staging.folder, f"inserts-{number}"), revives))
        rows += sum(piece.rows for piece in pieces)
    finder = runner.at_driver() if rows <= _ROWS_ON_DRIVER else runner
    return finder.run(find_new_rows, tasks, NewRowsResult)


def _list_hits(tasks: Sequence[TagTask | SortTask], results: Sequence[TagResult]) -> list[SliceHits]:
    """Return the file slices that have at least one hit, and where their hits are stored.

    A hit is a pair of a stored and an incoming row with the same key.

    Args:
        tasks: the locating tasks of one set of incoming rows.
        results: the result of each task. Its hit file has one record batch for each slice of the task.
    """
    found = []
    for task, result in zip(tasks, results, strict=True):
        for batch, (file_slice, rows) in enumerate(zip(task.slices, result.hits, strict=True)):
            if rows:
                found.append(SliceHits(file_slice, rows, HitBatch(result.hit_file, batch)))
    return found


def _sum_up(tasks: Sequence[Sequence[TagTask | SortTask]], results: Sequence[Sequence[TagResult]]) -> dict[str, int]:
    """Add up what the locating tasks did. Return the counts by the names under which the commit stores them.

    - `files`: slices that might hold incoming keys
    - `holding`: slices that hold at least one
    - `opened`: base files whose key column was read
    - `candidates`: how many keys were compared with these files
    - `rows`: incoming rows, one per key

    Args:
        tasks: the tasks of each set of incoming rows.
        results: the results of these tasks.
    """
    counts = {"files": 0, "holding": 0, "opened": 0, "candidates": 0, "rows": 0}
    for tasks_of_set in tasks:
        counts["files"] += sum(len(task.slices) for task in tasks_of_set)
    for results_of_set in results:
        for result in results_of_set:
            counts["holding"] += sum(rows > 0 for rows in result.hits)
            counts["opened"] += result.files_opened
            counts["candidates"] += result.candidates
        counts["rows"] += results_of_set[0].rows  # every task of a set loads the same rows
    return counts

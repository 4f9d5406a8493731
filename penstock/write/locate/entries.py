"""Stage 5 for an index that keeps entries of its own: it is asked for every key, and no base file is opened.

Tasks ask for a part of the keys each, side by side, and write down what they heard: for every row that counts, the file group
it is said to be in. What was heard is then sorted by file group, into the same form that tagging by base files gives, but for
row numbers, which nobody knows yet: the merge finds the rows by key, and a log needs no numbers.

An entry counts if its commit is on the timeline, or older than that, as with Hudi, and if its file group is still there. A row
whose partition changed moves as it comes, or is changed where it is; where the payload makes rows out of two, `moves.py` has
read the stored row before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice
from penstock.index import Index
from penstock.index.entry_store import EntryStore, valid_entry
from penstock.merge.choice import Fate, Fates
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.gather import Positions
from penstock.merge.merger import Merger
from penstock.options.operation import Operation
from penstock.spread.runner import Runner
from penstock.storage import Storage, join
from penstock.storage.os_errors import convert_os_errors
from penstock.table import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.store import read_metadata
from penstock.timeline.timeline import Timeline
from penstock.write.locate.tag import TagResult
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import Piece
from penstock.write.rows.task_rows import TaskRows, TaskRowsSettings, load_task_rows
from penstock.write.tasks.located_rows import Hits, create_hit_file, name_of_attempt

#: Keys that one task asks for.
_KEYS_PER_TASK = 20_000
#: Rows whose answers are sorted on the driver, sooner than a Spark job starts.
_ROWS_SORTED_HERE = 2_000_000
_ANSWERS = pa.schema([("new", pa.int64()), ("place", pa.int32()), ("fate", pa.int8())])


@dataclass(frozen=True)
class AskTask:
    """A part of the incoming keys."""

    store: EntryStore
    timeline: Timeline
    pieces: tuple[Piece, ...]
    loading: TaskRowsSettings
    merger: Merger
    moves: bool
    #: How the name of the file begins that the answers are written to.
    out: str
    part: int
    parts: int


@dataclass(frozen=True)
class Asked:
    """What was heard: a file of answers from each task, and the file groups that they number."""

    answers: tuple[str, ...]
    places: tuple[tuple[tuple[str, str], ...], ...]
    rows: int

    @property
    def partitions(self) -> set[str]:
        """Partition paths of the file groups."""
        return {path for places in self.places for path, _ in places}

    def among(self, slices: Mapping[str, Sequence[FileSlice]]) -> dict[str, list[FileSlice]]:
        """The slices of these file groups."""
        named = {place for places in self.places for place in places}
        return {path: [one for one in slices.get(path, ()) if (path, one.file_id) in named] for path in sorted(self.partitions)}


@dataclass(frozen=True)
class SortTask:
    """Answers, and the file groups that they may name."""

    storage: Storage
    asked: Asked
    pieces: tuple[Piece, ...]
    slices: tuple[FileSlice, ...]
    out: str


def ask_index(
    store: EntryStore,
    timeline: Timeline,
    pieces: Sequence[Piece],
    loading: TaskRowsSettings,
    merger: Merger,
    runner: Runner,
    *,
    moves: bool,
    time: int = 0,
) -> Asked:
    """Ask for the keys of all incoming rows. One job.

    Args:
        time: how often this write has asked before, for the names of files.
    """
    parts = -(-sum(p.rows for p in pieces) // _KEYS_PER_TASK)
    folder = loading.staging.folder
    tasks = [
        AskTask(store, timeline, tuple(pieces), loading, merger, moves, join(folder, f"asked-{time}-{part}"), part, parts)
        for part in range(parts)
    ]
    heard = runner.run(ask_for_keys, tasks, AskResult)
    places = tuple(tuple((path, file_id) for path, file_id in result.groups) for result in heard)
    return Asked(tuple(result.file for result in heard), places, sum(result.rows for result in heard))


def check_not_clustered(table: TableState, index: Index, asked: Asked, slices: Mapping[str, Sequence[FileSlice]]) -> None:
    """Refuse entries that name a file group in whose place a clustering has put others: rows would be there twice.

    Raises:
        OptionError: there is such an entry.
    """
    there = {(path, one.file_id) for path, its in slices.items() for one in its}
    gone = {place for places in asked.places for place in places} - there
    done = table.timeline.filter(Action.REPLACE_COMMIT, state=State.COMPLETED) if gone else ()
    for instant in done:
        metadata = read_metadata(table.storage, table.base_path, instant)
        if metadata.operation != Operation.CLUSTER.stored:
            continue
        for path, file_id in gone & {(path, file_id) for path, ids in (metadata.replaced or {}).items() for file_id in ids}:
            raise OptionError(
                f"{index.setting} has entries that name file group {file_id} of partition {path!r}, whose rows "
                f"clustering {instant.time} of {table.base_path} has moved without telling the index: they would be written "
                "twice. Use GLOBAL_SIMPLE or GLOBAL_BLOOM from now on, or write the rows to a new table"
            )


@dataclass(frozen=True)
class AskResult:
    """A file of answers, and the (partition path, file id) of the file groups that its answers number."""

    file: str
    groups: list[tuple[str, ...]]
    rows: int


def ask_for_keys(task: AskTask) -> AskResult:
    """Kernel: Ask where a part of the keys is, and write the answers to a file."""
    columns = (*task.merger.reads, DELETE_FLAG) if task.moves else ()
    incoming = load_task_rows(task.loading, task.pieces, columns=columns)
    mine = np.array_split(np.arange(len(incoming.rows)), task.parts)[task.part]
    keys = incoming.keys.take(pa.array(mine)).to_pylist()
    with task.store.open() as entries:
        heard = [valid_entry(task.timeline, entry) for entry in entries.get(keys)]
    numbers: dict[tuple[str, str], int] = {}
    at = [-1 if e is None else numbers.setdefault((e.partition_path, e.file_id), len(numbers)) for e in heard]
    rows, place = incoming.rows[mine], np.array(at, np.int32)
    out, storage = name_of_attempt(task.out), task.loading.staging.storage
    fates = _fates(task, incoming, rows, place, list(numbers)) if task.moves else np.full(len(rows), Fate.MERGE, np.int8)
    with convert_os_errors(out), storage.create(out) as sink, pa.ipc.new_file(sink, _ANSWERS) as writer:
        writer.write_batch(pa.record_batch([pa.array(rows), pa.array(place), pa.array(fates)], schema=_ANSWERS))
    return AskResult(out, list(numbers), len(rows))


def _fates(task: AskTask, incoming: TaskRows, rows: Positions, place: Any, groups: Sequence[tuple[str, str]]) -> Fates:
    """Which rows leave for another partition: all that are known elsewhere, but a delete finds its row where it is."""
    fates = np.full(len(rows), Fate.MERGE, np.int8)
    known = np.flatnonzero(place >= 0)
    places = RowPartitions(task.pieces)
    stored = np.array([places.path_number(path) for path, _ in groups], np.int64)
    away = known[places.path_numbers_of(rows[known]) != stored[place[known]]] if len(known) else known
    if len(away):
        fates[away] = np.where(task.merger.is_delete(incoming.take(rows[away])), Fate.MERGE, Fate.MOVE)
    return fates


def sort_answers(task: SortTask) -> TagResult:
    """Kernel: Write the answers of all tasks as hits of each file slice, in the form of `tag_slices`.

    A file group that is not among the table's any more holds no row.
    """
    new, group, fates = _answers(task)
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(task.slices) + 1))
    hit_file = name_of_attempt(task.out)
    with create_hit_file(task.storage, hit_file) as file:
        for first, last in pairwise(bounds):
            rows = order[first:last]
            rows = rows[np.argsort(new[rows], kind="stable")]
            file.write_hits(Hits(np.full(len(rows), -1), new[rows], fates[rows]))
        file.write_rows(np.sort(new))
    counts = np.diff(bounds).tolist()
    return TagResult(hit_file, counts, rows=len(new), candidates=sum(counts))


def _answers(task: SortTask) -> tuple[Positions, Positions, Fates]:
    """Rows, the number of their file group among the task's files (-1 if none), and their fates."""
    numbers: Mapping[tuple[str, str], int] = {(s.partition_path, s.file_id): i for i, s in enumerate(task.slices)}
    new, group, fates = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int8)]
    for name, places in zip(task.asked.answers, task.asked.places, strict=True):
        batch = pa.ipc.open_file(task.storage.map(name)).get_batch(0)
        here = np.array([*(numbers.get(place, -1) for place in places), -1], np.int64)  # -1 takes the last one
        new.append(np.asarray(batch.column("new")))
        group.append(here[np.asarray(batch.column("place"))])
        fates.append(np.asarray(batch.column("fate")))
    return np.concatenate(new), np.concatenate(group), np.concatenate(fates)


def sort_task(
    asked: Asked, loading: TaskRowsSettings, pieces: tuple[Piece, ...], slices: Mapping[str, Sequence[FileSlice]]
) -> SortTask:
    """What sorting the answers is told: of the table's file groups those that were named."""
    files = [one for its in asked.among(slices).values() for one in its]
    return SortTask(loading.staging.storage, asked, pieces, tuple(files), join(loading.staging.folder, "sorted"))


def sorts_here(asked: Asked) -> bool:
    """Whether the driver sorts the answers itself."""
    return asked.rows <= _ROWS_SORTED_HERE

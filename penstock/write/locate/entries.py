"""Locates keys with an index that keeps entries (record key → file group) in a key-value store. Opens no base file.

1. Each task looks up the entries of a part of the keys (`look_up_keys`) and writes a file of answers. An answer is one row for
   the newest incoming row of each key: the file group that the key's entry names, if there is an entry.
2. The answers of all tasks are sorted by file slice (`sort_answers`) into a hit file, in the format that `tag.py` writes after
   reading base files. A hit is a pair of a stored and an incoming row with the same key. An entry does not say which row of the
   base file has the key, so the stored row number of these hits is -1. The task that merges finds the stored row by its key; a
   task that appends to a log file does not need the row number.

As in Hudi, an entry is valid if its commit is completed on the timeline or older than the timeline. An entry of a file group
that is not in the table any more is ignored. If the entry of an incoming row names another partition, `Index.moves_rows`
decides: the row moves to its own partition, or it updates the stored row where that is. If the payload builds a new row out of
the stored and the incoming row, `moves.py` does that before the row moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice
from penstock.index import Index
from penstock.index.entry_store import EntryStore, valid_entry
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.gather import Positions
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Fate, Fates
from penstock.options.operation import Operation
from penstock.storage import Storage, join, open_arrow_file, write_batch
from penstock.storage.os_errors import convert_os_errors
from penstock.table.state import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.store import read_metadata
from penstock.timeline.timeline import Timeline
from penstock.workers.runner import Runner
from penstock.write.locate.tag import TagResult
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import Piece
from penstock.write.tasks.located_rows import Hits, create_hit_file, name_of_attempt
from penstock.write.tasks.task_rows import TaskRows, TaskRowsSettings, load_task_rows

#: How many keys one task looks up.
_KEYS_PER_TASK = 20_000
#: The driver sorts answers of up to this many rows. Starting a Spark job would take longer.
_ROWS_SORTED_ON_DRIVER = 2_000_000
#: The columns of a file of answers: `new` is the number of an incoming row, `place` the position in `EntryResult.groups` of the
#: file group that the entry of its key names (-1 without an entry), `fate` what happens to the stored row (`Fate`).
_ANSWERS = pa.schema([("new", pa.int64()), ("place", pa.int32()), ("fate", pa.int8())])

#: Partition path and file id.
Group = tuple[str, str]


@dataclass(frozen=True)
class EntryTask:
    """Task description of `look_up_keys`: look up the index entries of some incoming keys in the index's key-value store.

    The keys are split into `parts` parts; the task looks up part number `part`.
    """

    store: EntryStore
    timeline: Timeline
    pieces: tuple[Piece, ...]
    loading: TaskRowsSettings
    merger: Merger
    #: Whether a row whose partition changed moves to its new partition.
    moves: bool
    #: The first part of the name of the file of answers. The result holds the whole name.
    file_prefix: str
    #: The keys are split into `parts` parts. The task looks up part number `part`.
    part: int
    parts: int


@dataclass(frozen=True)
class EntryResult:
    """The result of `look_up_keys`: the file that one task wrote. It lists, for each key, the file group that its entry names.

    `groups` are these file groups; the file refers to them by position.
    """

    file: str
    #: (partition path, file id) of the file groups. The column `place` of the file holds positions in this list.
    groups: list[tuple[str, ...]]
    #: How many incoming rows the file lists, one per key.
    rows: int


@dataclass(frozen=True)
class EntryAnswers:
    """The results of all `look_up_keys` tasks: for each incoming key, the file group that its index entry names.

    This object holds the names of the files of answers that the tasks wrote, and the file groups. `sort_answers` reads the files.
    """

    #: The file of answers of each task.
    files: tuple[str, ...]
    #: For each file: (partition path, file id) of the file groups. The column `place` of the file holds positions in this tuple.
    groups_of_files: tuple[tuple[Group, ...], ...]
    #: How many incoming rows all files list, one per key.
    rows: int

    @property
    def groups(self) -> set[Group]:
        """All file groups that are named by an index entry of an incoming key, as (partition path, file id)."""
        return set(chain.from_iterable(self.groups_of_files))

    @property
    def partitions(self) -> set[str]:
        """All partition paths that are named by an index entry of an incoming key."""
        return {path for path, _ in self.groups}

    def select_slices(self, slices: Mapping[str, Sequence[FileSlice]]) -> dict[str, list[FileSlice]]:
        """Return the file slices whose file group is named by an index entry of an incoming key, by partition path.

        Args:
            slices: the file slices of the table, by partition path.
        """
        groups = self.groups
        selected: dict[str, list[FileSlice]] = {}
        for path in sorted(self.partitions):
            selected[path] = [file_slice for file_slice in slices.get(path, ()) if (path, file_slice.file_id) in groups]
        return selected


@dataclass(frozen=True)
class SortTask:
    """Task description of `sort_answers`: sort the files of all `look_up_keys` tasks by file slice, into one hit file.

    A hit file lists pairs of a stored and an incoming row with the same key.
    """

    storage: Storage
    answers: EntryAnswers
    pieces: tuple[Piece, ...]
    slices: tuple[FileSlice, ...]
    #: The first part of the name of the hit file. The result holds the whole name.
    hit_file_prefix: str


def look_up_entries(
    store: EntryStore,
    timeline: Timeline,
    pieces: Sequence[Piece],
    loading: TaskRowsSettings,
    merger: Merger,
    runner: Runner,
    *,
    moves: bool,
    attempt: int = 0,
) -> EntryAnswers:
    """Look up the index entries of all incoming keys in the key-value store of the index, in one job.

    Return the names of the files with the results, and the file groups that the entries name. The caller lists the slices of
    these file groups, then `sort_answers` assigns the incoming rows to them.

    Args:
        store: the store that holds the entries.
        timeline: decides which entries are valid: those of completed commits.
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
        loading: how tasks load the incoming rows.
        merger: the merger of the write.
        runner: runs the job in Spark or on the driver.
        moves: whether a row whose entry names another partition moves to the partition of the incoming row.
        attempt: 0 for the first lookup of a write, 1 for the second. Part of the names of the files that tasks write.
    """
    parts = -(-sum(piece.rows for piece in pieces) // _KEYS_PER_TASK)
    tasks = []
    for part in range(parts):
        file_prefix = join(loading.staging.folder, f"asked-{attempt}-{part}")
        tasks.append(EntryTask(store, timeline, tuple(pieces), loading, merger, moves, file_prefix, part, parts))
    results = runner.run(look_up_keys, tasks, EntryResult)
    groups_of_files = []
    for result in results:
        groups_of_files.append(tuple((path, file_id) for path, file_id in result.groups))
    files = tuple(result.file for result in results)
    return EntryAnswers(files, tuple(groups_of_files), sum(result.rows for result in results))


def check_not_clustered(
    table: TableState, index: Index, answers: EntryAnswers, slices: Mapping[str, Sequence[FileSlice]]
) -> None:
    """Raise OptionError if an entry names a file group that a clustering replaced without updating the entries.

    The stored row is then in another file group, and an upsert would insert its key a second time. A clustering by Penstock with
    this index puts entries for the new file groups. A clustering by Hudi, or with another index, does not.

    Args:
        answers: the file groups that the entries of the incoming keys name.
        slices: the current file slices of the partitions that the entries name, by partition path.
    """
    listed_groups: set[Group] = set()
    for path, slices_of_path in slices.items():
        listed_groups.update((path, file_slice.file_id) for file_slice in slices_of_path)
    missing_groups = answers.groups - listed_groups
    if not missing_groups:
        return
    for instant in table.timeline.filter(Action.REPLACE_COMMIT, state=State.COMPLETED):
        metadata = read_metadata(table.storage, table.base_path, instant)
        if metadata.operation != Operation.CLUSTER.stored:
            continue
        for path, file_ids in (metadata.replaced or {}).items():
            for file_id in file_ids:
                if (path, file_id) in missing_groups:
                    raise OptionError(
                        f"{index.setting} has entries that name file group {file_id} of partition {path!r}, whose rows "
                        f"clustering {instant.time} of {table.base_path} has moved without telling the index: they would be "
                        "written twice. Use GLOBAL_SIMPLE or GLOBAL_BLOOM from now on, or write the rows to a new table"
                    )


def look_up_keys(task: EntryTask) -> EntryResult:
    """Look up the index entries of the task's keys, and write to a file which file group each entry names.

    A key without a valid entry is new. Runs in a task, on a worker or on the driver.
    """
    columns = (*task.merger.reads, DELETE_FLAG) if task.moves else ()
    incoming = load_task_rows(task.loading, task.pieces, columns=columns)
    positions = np.array_split(np.arange(len(incoming.rows)), task.parts)[task.part]
    keys = incoming.keys.take(pa.array(positions)).to_pylist()
    with task.store.open() as entries:
        stored_entries = entries.get(keys)
    number_by_group: dict[Group, int] = {}
    group_numbers = []
    for stored_entry in stored_entries:
        entry = valid_entry(task.timeline, stored_entry)
        if entry is None:
            group_numbers.append(-1)
        else:
            group = (entry.partition_path, entry.file_id)
            group_numbers.append(number_by_group.setdefault(group, len(number_by_group)))
    rows = incoming.rows[positions]
    places = np.array(group_numbers, np.int32)
    fates = _choose_fates(task, incoming, rows, places, list(number_by_group))
    file = name_of_attempt(task.file_prefix)
    storage = task.loading.staging.storage
    with convert_os_errors(file), storage.create(file) as sink, pa.ipc.new_file(sink, _ANSWERS) as writer:
        batch = pa.record_batch([pa.array(rows), pa.array(places), pa.array(fates)], schema=_ANSWERS)
        write_batch(storage, writer, batch)
    return EntryResult(file, list(number_by_group), len(rows))


def _choose_fates(task: EntryTask, incoming: TaskRows, rows: Positions, places: Any, groups: Sequence[Group]) -> Fates:
    """Return the `Fate` of each incoming row's stored row: MOVE if the entry names another partition, otherwise MERGE.

    MOVE removes the stored row from its file, because the incoming row is written to its own partition. MERGE lets the merger
    decide. A delete also gets MERGE, because it applies in the partition of the stored row. All rows get MERGE if the index does
    not move rows.

    Args:
        rows: the numbers of the incoming rows.
        places: for each row, the position in `groups` of the file group that its entry names; -1 for a new key.
        groups: (partition path, file id) of the file groups that the entries name.
    """
    fates = np.full(len(rows), Fate.MERGE, np.int8)
    known = np.flatnonzero(places >= 0)
    if not task.moves or not len(known):
        return fates
    partitions = RowPartitions(task.pieces)
    stored_paths = np.array([partitions.path_number(path) for path, _ in groups], np.int64)
    is_away = partitions.path_numbers_of(rows[known]) != stored_paths[places[known]]
    away = known[is_away]
    if len(away):
        is_delete = task.merger.is_delete(incoming.take(rows[away]))
        fates[away] = np.where(is_delete, Fate.MERGE, Fate.MOVE)
    return fates


def sort_answers(task: SortTask) -> TagResult:
    """Read the files of all `look_up_keys` tasks, sort their rows by file slice, and write them to one hit file.

    The hit file has the format that `tag_slices` writes. A hit is a pair of a stored and an incoming row with the same key; the
    number of the stored row is unknown here and written as -1. A row whose entry names a file group that is not in the table any
    more gets no hit, so it counts as new. Runs in a task, on a worker or on the driver.
    """
    new, slice_numbers, fates = _read_answers(task)
    order = np.argsort(slice_numbers, kind="stable")
    bounds = np.searchsorted(slice_numbers[order], np.arange(len(task.slices) + 1))
    hit_file = name_of_attempt(task.hit_file_prefix)
    with create_hit_file(task.storage, hit_file) as file:
        for first, last in pairwise(bounds):
            rows = order[first:last]
            rows = rows[np.argsort(new[rows], kind="stable")]
            row_numbers = np.full(len(rows), -1)
            file.write_hits(Hits(row_numbers, new[rows], fates[rows]))
        file.write_rows(np.sort(new))
    counts = np.diff(bounds).tolist()
    return TagResult(hit_file, counts, rows=len(new), candidates=sum(counts))


def _read_answers(task: SortTask) -> tuple[Positions, Positions, Fates]:
    """Read the files of all `look_up_keys` tasks. Return three arrays with one element per incoming row.

    1. The number of the row.
    2. The position in `task.slices` of the slice that the row's entry names; -1 if there is none.
    3. The `Fate` of the stored row: MERGE or MOVE.
    """
    slice_numbers: dict[Group, int] = {}
    for number, file_slice in enumerate(task.slices):
        slice_numbers[file_slice.partition_path, file_slice.file_id] = number
    new = [np.empty(0, np.int64)]
    numbers = [np.empty(0, np.int64)]
    fates = [np.empty(0, np.int8)]
    for file, groups in zip(task.answers.files, task.answers.groups_of_files, strict=True):
        batch = open_arrow_file(task.storage, file).get_batch(0)
        # A key without an entry has -1 in the column `place`. As an index, -1 selects the last element, which is -1 again.
        number_by_place = np.array([*(slice_numbers.get(group, -1) for group in groups), -1], np.int64)
        new.append(np.asarray(batch.column("new")))
        numbers.append(number_by_place[np.asarray(batch.column("place"))])
        fates.append(np.asarray(batch.column("fate")))
    return np.concatenate(new), np.concatenate(numbers), np.concatenate(fates)


def make_sort_task(
    answers: EntryAnswers,
    loading: TaskRowsSettings,
    pieces: tuple[Piece, ...],
    slices: Mapping[str, Sequence[FileSlice]],
) -> SortTask:
    """Return the task that sorts the results of all `look_up_keys` tasks by file slice.

    Args:
        answers: the results.
        loading: names the storage and the staging folder, in which the hit file is created.
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
        slices: the file slices of the table, by partition path. The task gets only slices whose file group an entry names.
    """
    selected = chain.from_iterable(answers.select_slices(slices).values())
    hit_file_prefix = join(loading.staging.folder, "sorted")
    return SortTask(loading.staging.storage, answers, pieces, tuple(selected), hit_file_prefix)


def sorts_on_driver(answers: EntryAnswers) -> bool:
    """Whether `sort_answers` runs on the driver, because there are so few rows that a Spark job would take longer."""
    return answers.rows <= _ROWS_SORTED_ON_DRIVER

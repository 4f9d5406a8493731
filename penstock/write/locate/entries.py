"""Stage 5 for an index that keeps entries (record key to file group): locates keys by their entries and opens no base file.

1. Each task looks up a part of the keys (`look_up_keys`) and writes a file of answers: for each incoming row that counts (one per
   key), the number of the file group that the key's entry names.
2. The answers of all tasks are sorted by file slice (`sort_answers`) into a hit file of the same form as `tag.py` writes. Entries
   do not know row numbers, so these hits have none: the task that merges finds the stored row by key, and a log needs no row
   numbers.

As in Hudi, an entry is valid if its commit is completed on the timeline or older than the timeline. An entry of a file group that
is not in the table any more is ignored. An incoming row whose entry names another partition moves to its own partition, or
updates the stored row in place, as the options say. If the payload builds a new row out of both, `moves.py` has read the stored
row before.
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
from penstock.storage import Storage, join
from penstock.storage.os_errors import convert_os_errors
from penstock.table.state import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.store import read_metadata
from penstock.timeline.timeline import Timeline
from penstock.workers.runner import Runner
from penstock.write.locate.located_rows import Hits, create_hit_file, name_of_attempt
from penstock.write.locate.tag import TagResult
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import Piece
from penstock.write.tasks.task_rows import TaskRows, TaskRowsSettings, load_task_rows

#: How many keys one task looks up.
_KEYS_PER_TASK = 20_000
#: The driver sorts answers of up to this many rows. Starting a Spark job would take longer.
_ROWS_SORTED_ON_DRIVER = 2_000_000
#: `new` is the number of an incoming row, `place` the position of its file group in `EntryResult.groups`, -1 for a new key.
_ANSWERS = pa.schema([("new", pa.int64()), ("place", pa.int32()), ("fate", pa.int8())])

#: Partition path and file id.
Group = tuple[str, str]


@dataclass(frozen=True)
class EntryTask:
    """Task description: look up the index entries of some of the incoming keys, part number `part` of `parts`."""

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
    """The file that one lookup task wrote. For each incoming row it holds the file group that the key's index entry names."""

    file: str
    #: (partition path, file id) of the file groups. An answer's `place` is a position in this list.
    groups: list[tuple[str, ...]]
    rows: int


@dataclass(frozen=True)
class EntryAnswers:
    """The results of all lookup tasks: for each incoming row, the file group that the index entry of the row's key names.

    The results are in files, which `files` names.
    """

    #: The file of answers of each task.
    files: tuple[str, ...]
    #: For each file: the file groups that its answers refer to by position.
    groups_of_files: tuple[tuple[Group, ...], ...]
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
    """Task description: sort the files of all lookup tasks by file slice, into one hit file.

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
    """Look up the index entries of all incoming keys, in one job.

    Args:
        store: the store that holds the entries.
        timeline: decides which entries are valid: those of completed commits.
        pieces: where the staged rows are.
        loading: how tasks load the incoming rows.
        moves: whether a row whose entry names another partition moves to the partition of the incoming row.
        attempt: how often this write has looked up its keys before. Part of the names of the files that tasks write.
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
    """Look up the index entries of the task's keys, and write to a file which file group each entry names. Kernel.

    A key without an entry is new.
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
        writer.write_batch(pa.record_batch([pa.array(rows), pa.array(places), pa.array(fates)], schema=_ANSWERS))
    return EntryResult(file, list(number_by_group), len(rows))


def _choose_fates(task: EntryTask, incoming: TaskRows, rows: Positions, places: Any, groups: Sequence[Group]) -> Fates:
    """Return for each incoming row what to do with its stored row: MOVE if the entry names another partition, otherwise MERGE.

    MERGE too for a delete, which is applied in the partition of the stored row, and for all rows if the index does not move rows.

    Args:
        rows: the numbers of the incoming rows.
        places: the position in `groups` of each row's file group; -1 for a new key.
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
    """Write the results of all lookup tasks to one hit file, sorted by file slice, as `tag_slices` writes hits. Kernel.

    A hit is a pair of a stored and an incoming row. A row whose entry names a file group that is not in the table any more gets
    no hit: it counts as new.
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
    """Read the files of all lookup tasks. Return three arrays with one element per incoming row.

    1. The number of the row.
    2. The position in `task.slices` of the slice that the row's entry names; -1 if there is none.
    3. The row's fate.
    """
    slice_numbers: dict[Group, int] = {}
    for number, file_slice in enumerate(task.slices):
        slice_numbers[file_slice.partition_path, file_slice.file_id] = number
    new = [np.empty(0, np.int64)]
    numbers = [np.empty(0, np.int64)]
    fates = [np.empty(0, np.int8)]
    for file, groups in zip(task.answers.files, task.answers.groups_of_files, strict=True):
        batch = pa.ipc.open_file(task.storage.map(file)).get_batch(0)
        # A new key has place -1, which takes the last number: -1 again.
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
    """Return the task that sorts the results of all lookup tasks by file slice.

    Args:
        pieces: where the staged rows are.
        slices: the file slices of the table, by partition path. The task gets only slices that an entry names.
    """
    selected = chain.from_iterable(answers.select_slices(slices).values())
    hit_file_prefix = join(loading.staging.folder, "sorted")
    return SortTask(loading.staging.storage, answers, pieces, tuple(selected), hit_file_prefix)


def sorts_on_driver(answers: EntryAnswers) -> bool:
    """Whether the driver sorts the lookup results itself, because they have so few rows that a Spark job would take longer."""
    return answers.rows <= _ROWS_SORTED_ON_DRIVER

"""Stage 5 for an index that keeps entries: the entry of each incoming key is looked up, and no base file is opened.

1. Tasks look up a part of the keys each (`look_up_keys`), and write a file of answers: for each row that counts, the number of
   the file group that its key is in.
2. The answers of all tasks are sorted by file slice (`sort_answers`) into a hit file, as tagging by base files writes it. Row
   numbers are not known, so a hit has none: the merge finds rows by key, and a log needs no row numbers.

An entry counts if its commit is on the timeline, or older than the timeline, as in Hudi, and if its file group is still in the
table. A row whose partition changed moves as it is, or is updated where it is. If the payload builds a row out of two, `moves.py`
has read the stored row before.
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

#: How many keys one task looks up.
_KEYS_PER_TASK = 20_000
#: The driver sorts answers of up to this many rows. Starting a Spark job would take longer.
_ROWS_SORTED_ON_DRIVER = 2_000_000
#: `new` is the number of an incoming row, `place` the number of its file group in the file of answers, -1 for a new key.
_ANSWERS = pa.schema([("new", pa.int64()), ("place", pa.int32()), ("fate", pa.int8())])

#: Partition path and file id.
Group = tuple[str, str]


@dataclass(frozen=True)
class EntryTask:
    """A part of the incoming keys, whose entries are looked up."""

    store: EntryStore
    timeline: Timeline
    pieces: tuple[Piece, ...]
    loading: TaskRowsSettings
    merger: Merger
    #: Whether a row whose partition changed moves to its new partition.
    moves: bool
    #: The first part of the name of the file of answers. The result holds the whole name.
    file_prefix: str
    #: Which of how many parts of the keys the task looks up.
    part: int
    parts: int


@dataclass(frozen=True)
class EntryResult:
    """A file of answers, and the file groups that its answers number, as (partition path, file id)."""

    file: str
    groups: list[tuple[str, ...]]
    rows: int


@dataclass(frozen=True)
class EntryAnswers:
    """The answers of all tasks."""

    #: The file of answers of each task.
    files: tuple[str, ...]
    #: The file groups that the answers of each file number.
    groups_of_files: tuple[tuple[Group, ...], ...]
    rows: int

    @property
    def groups(self) -> set[Group]:
        """All file groups that entries name."""
        return set(chain.from_iterable(self.groups_of_files))

    @property
    def partitions(self) -> set[str]:
        """The partition paths of the file groups."""
        return {path for path, _ in self.groups}

    def select_slices(self, slices: Mapping[str, Sequence[FileSlice]]) -> dict[str, list[FileSlice]]:
        """Return the slices of the file groups that entries name, by partition path."""
        groups = self.groups
        selected: dict[str, list[FileSlice]] = {}
        for path in sorted(self.partitions):
            selected[path] = [file_slice for file_slice in slices.get(path, ()) if (path, file_slice.file_id) in groups]
        return selected


@dataclass(frozen=True)
class SortTask:
    """All answers, and the file slices by which they are sorted."""

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
    """Look up the entries of all incoming keys. One job.

    Args:
        attempt: how often this write has done so before, for the names of files.
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
    """Raise OptionError if an entry names a file group that a clustering replaced: its row would be written twice.

    A clustering by Penstock puts entries for the new file groups. One by Hudi, or with another index, does not.
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
    """Kernel: Look up the entries of a part of the keys, and write the answers to a file."""
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
    """Return which rows move: those whose entry names another partition. A delete is applied where its row is."""
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
    """Kernel: Write the answers of all tasks as hits of each file slice, in the form of `tag_slices`.

    An entry of a file group that is not in the table any more is ignored: its row is new.
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
    """Return incoming rows, the number of each one's slice in the task (-1 if it has none), and their fates."""
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
    """Return the task that sorts answers by those of the table's file slices that entries name."""
    selected = chain.from_iterable(answers.select_slices(slices).values())
    hit_file_prefix = join(loading.staging.folder, "sorted")
    return SortTask(loading.staging.storage, answers, pieces, tuple(selected), hit_file_prefix)


def sorts_on_driver(answers: EntryAnswers) -> bool:
    """Whether the driver sorts the answers."""
    return answers.rows <= _ROWS_SORTED_ON_DRIVER

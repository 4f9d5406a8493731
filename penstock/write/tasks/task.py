"""Descriptions of the tasks that write files. The driver creates them (`locate/`), and functions of this folder carry them out.

A task description is a frozen dataclass that is pickled to a worker. It holds no rows. It says where the incoming rows are
(`Piece`: consecutive rows of a staged file) and which file group they go to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.filegroup.log.write import LogSettings
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.filegroup.slice_rows import MergeRules
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.index import Index
from penstock.merge.merger import Merger
from penstock.workers.run_kernels import this_task
from penstock.write.locate.small_files import Sizing
from penstock.write.rows.staging import Piece, Staging
from penstock.write.tasks.located_rows import HitBatch, NewRowRange
from penstock.write.tasks.task_rows import TaskRowsSettings


@dataclass(frozen=True)
class UpsertRules:
    """The settings that all tasks of one write share. Pickled to the workers with each task.

    The write is an upsert, a delete, an insert that drops duplicates, or any write to a table with the bucket index.
    """

    settings: FileSettings
    loading: TaskRowsSettings
    merger: Merger
    sizing: Sizing
    index: Index
    #: The ordering column: of two rows of a key, in the batch or in a log, the one with the greater value is newer. None: the
    #: later one is newer.
    ordering: str | None = None
    #: How log files are written; None: the table is copy-on-write.
    logs: LogSettings | None = None
    #: How base files and logs are merged to rows; None: the table is copy-on-write.
    merging: MergeRules | None = None
    #: Whether incoming rows whose keys are not stored are dropped instead of inserted (delete).
    drops_unknown: bool = False
    #: Whether incoming rows whose keys are stored are dropped instead of merged (insert that drops duplicates).
    drops_known: bool = False
    #: Whether a log and the base file of a new file group take all incoming rows of a key (upsert without combining), not only
    #: the last.
    keeps_repeats: bool = False
    #: Whether rows are added without looking for their keys (insert into buckets).
    adds: bool = False
    #: Whether a new bucket of a merge-on-read table begins with a log file instead of a base file.
    logs_first: bool = False


@dataclass(frozen=True)
class UpsertTask:
    """Task description: write incoming rows of one partition, to an existing file slice or to new file groups.

    Base class of `PartitionTask`, `GroupTask` and `BucketTask`.
    """

    rules: UpsertRules
    partition_path: str
    pieces: tuple[Piece, ...]
    #: The slice that the rows change; None: the rows go to new file groups.
    file_slice: FileSlice | None = None

    @property
    def base_file(self) -> BaseFile | None:
        """The base file of the task's slice; None if there is no slice, or if the slice has only logs."""
        return self.file_slice.base_file if self.file_slice else None

    @property
    def incoming_rows(self) -> int:
        """The number of staged rows that the task reads, in all its pieces."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def size_bytes(self) -> int:
        """The bytes that the task reads: of the base file and of the staged rows.

        The driver starts the largest tasks first, so that no large task runs alone at the end.
        """
        base_bytes = self.file_slice.base_bytes if self.file_slice else 0
        return base_bytes + sum(piece.size_bytes for piece in self.pieces)


@dataclass(frozen=True)
class PartitionTask(UpsertTask):
    """Task description: write all incoming rows of a partition that has at most one file group.

    The task itself looks for the stored rows with their keys.
    """


@dataclass(frozen=True)
class GroupTask(UpsertTask):
    """Task description: write changed rows and new rows of one file group, existing or new.

    The stored row of each key was looked up before this task. The pieces also hold incoming rows of other file groups: `hits` and
    `new_rows` select the rows of this file group.
    """

    #: Where the hits of the slice are (pairs of a stored and an incoming row with the same key); None: there are none.
    hits: HitBatch | None = None
    #: Where the numbers of the new rows are that are added to the file group; None: there are none.
    new_rows: NewRowRange | None = None
    #: Whether changes are appended to the log of the slice. Otherwise its base file is rewritten.
    appends: bool = False
    #: The file of new rows, if it also lists rows that must not be appended to this slice although it has hits for them: a log of
    #: the slice has deleted their keys, and they are written to another slice. None: there are no such rows.
    elsewhere_file: str | None = None

    @property
    def file_id(self) -> str | None:
        """The id of the existing file group; None if the file group is new."""
        return self.file_slice.file_id if self.file_slice else None


@dataclass(frozen=True)
class BucketTask(UpsertTask):
    """Task description: write all incoming rows of one bucket of the bucket index.

    Stored rows with their keys can only be in `file_slice`, the slice of the bucket.
    """

    #: The id of the bucket's file group, existing or new.
    file_id: str = field(kw_only=True)
    #: A file slice of the partition with which the task checks the number of buckets in the options: the stored keys of the slice
    #: must hash to its bucket. None if the table's properties hold the number of buckets, or if the partition has no slice.
    witness: FileSlice | None = None


@dataclass(frozen=True)
class InsertBucket:
    """The incoming rows that an insert adds to one file group. Not a bucket of the bucket index."""

    partition_path: str
    pieces: tuple[Piece, ...]
    #: The slice that the rows are added to; None: a new file group.
    target: FileSlice | None = None

    @property
    def rows(self) -> int:
        """The number of incoming rows of the insert bucket."""
        return sum(piece.rows for piece in self.pieces)


@dataclass(frozen=True)
class InsertTask:
    """Task description: write the rows of one insert bucket (the incoming rows that an insert adds to one file group)."""

    bucket: InsertBucket
    settings: FileSettings
    staging: Staging
    merger: Merger
    #: How the rows are loaded, one per key, before they are merged into a base file by key; None: they are added unmerged.
    loading: TaskRowsSettings | None = None
    #: How log files are written; None: rows go to base files.
    logs: LogSettings | None = None


def open_task_output(settings: FileSettings) -> TaskOutput:
    """Return the `TaskOutput` through which the running task creates its files.

    It puts the number of the task into file names and `_hoodie_commit_seqno`.
    """
    task = this_task()
    return TaskOutput(settings, settings.first_task + task.number, task.write_token)

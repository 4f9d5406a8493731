"""Descriptions of the tasks that write files. The driver creates them (`locate/`), and the kernels of this folder run them.

A task description is a frozen dataclass that is pickled to a worker. It refers to staged pieces and files; it holds no rows.
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
from penstock.write.locate.file_sizing import Sizing
from penstock.write.locate.located_rows import HitBatch, NewRowRange
from penstock.write.rows.staging import Piece, Staging
from penstock.write.tasks.task_rows import TaskRowsSettings


@dataclass(frozen=True)
class UpsertRules:
    """The settings that all tasks of one write share: an upsert, a delete, or an insert that drops duplicates or has buckets.

    Pickled to the workers with each task.
    """

    settings: FileSettings
    loading: TaskRowsSettings
    merger: Merger
    sizing: Sizing
    index: Index
    #: The ordering column, for rows of the batch and of a log: the greater value is newer. None: the later row is newer.
    ordering: str | None = None
    #: How log files are written; None: the table is copy-on-write.
    logs: LogSettings | None = None
    #: How base files and logs are merged to rows; None: the table is copy-on-write.
    merging: MergeRules | None = None
    #: Whether incoming rows whose keys are not stored are dropped instead of inserted (delete).
    drops_unknown: bool = False
    #: Whether incoming rows whose keys are stored are dropped instead of merged (insert that drops duplicates).
    drops_known: bool = False
    #: Whether the base file of a new file group takes all incoming rows of a key (upsert without combining), not only the last.
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

    The task locates the keys of the rows itself.
    """


@dataclass(frozen=True)
class GroupTask(UpsertTask):
    """Task description: write changed rows and new rows of one file group, existing or new. Their keys are already located.

    The pieces also hold incoming rows of other file groups. `hits` and `new_rows` select the rows of this file group.
    """

    #: The hits of the slice; None: there are none.
    hits: HitBatch | None = None
    #: The new rows that are added to the file group; None: there are none.
    new_rows: NewRowRange | None = None
    #: Whether changes are appended to the log of the slice. Otherwise its base file is rewritten.
    appends: bool = False
    #: The file of new rows if it lists rows that must not be appended to the slice in which a log has deleted their key.
    elsewhere_file: str | None = None

    @property
    def file_id(self) -> str | None:
        """The id of the existing file group; None if the file group is new."""
        return self.file_slice.file_id if self.file_slice else None


@dataclass(frozen=True)
class BucketTask(UpsertTask):
    """Task description: write all incoming rows of one bucket of the bucket index. Only `file_slice` can hold their keys."""

    #: The id of the bucket's file group, existing or new.
    file_id: str = field(kw_only=True)
    #: A file slice of the partition. The task checks that the keys of this slice belong to the bucket of this slice. None if the
    #: table's properties say how many buckets there are, or if the partition has no slice.
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
    """Task description: write the rows of one insert bucket, which an insert adds to one file group."""

    bucket: InsertBucket
    settings: FileSettings
    staging: Staging
    merger: Merger
    #: How the rows are loaded, one per key, before they are merged into a base file by key; None: they are added unmerged.
    loading: TaskRowsSettings | None = None
    #: How log files are written; None: rows go to base files.
    logs: LogSettings | None = None


def open_task_output(settings: FileSettings) -> TaskOutput:
    """Return the output through which the running task creates files.

    File names and sequence numbers contain the number of the task.
    """
    task = this_task()
    return TaskOutput(settings, task.number, task.write_token)

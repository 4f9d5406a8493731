"""Descriptions of the tasks that write files. The driver makes them (`locate/`), the kernels of this folder run them.

A task description is a frozen value that is pickled to a worker. It names staged pieces and files; it holds no rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.filegroup.log.write import LogSettings
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.filegroup.slice_rows import MergeRules
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.index import Index
from penstock.merge.merger import Merger
from penstock.spread.run import this_task
from penstock.write.file_sizing import Sizing
from penstock.write.rows.staging import Piece, Staging
from penstock.write.rows.task_rows import TaskRowsSettings
from penstock.write.tasks.located_rows import HitBatch, NewRowRange


@dataclass(frozen=True)
class UpsertRules:
    """What is the same for every task of one upsert or delete, or of an insert that looks for its keys."""

    settings: FileSettings
    loading: TaskRowsSettings
    merger: Merger
    sizing: Sizing
    index: Index
    #: The column that says which of several rows of a key is newer, in the batch and in a log; None: the later row is newer.
    ordering: str | None = None
    #: How log files are written; None: the table is copy-on-write.
    logs: LogSettings | None = None
    #: How base files and logs are merged to rows; None: the table is copy-on-write.
    merging: MergeRules | None = None
    #: Rows with unknown keys are dropped, not inserted: the delete operation.
    drops_unknown: bool = False
    #: Rows with known keys are dropped, not merged: an insert without duplicates.
    drops_known: bool = False
    #: Rows are added without looking for their keys: an insert into buckets.
    adds: bool = False
    #: New buckets of a merge-on-read table begin with a log file, not with a base file.
    logs_first: bool = False


@dataclass(frozen=True)
class UpsertTask:
    """A part of an upsert that one worker does: incoming rows of one partition, and at most one file slice of it."""

    rules: UpsertRules
    partition_path: str
    pieces: tuple[Piece, ...]
    #: The slice that the rows change; None: the rows go to new file groups.
    file_slice: FileSlice | None = None

    @property
    def base_file(self) -> BaseFile | None:
        """The base file of the slice, if there is one."""
        return self.file_slice.base_file if self.file_slice else None

    @property
    def incoming_rows(self) -> int:
        """How many rows the pieces have."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def size_bytes(self) -> int:
        """Bytes of the base file and the pieces. Large tasks are started first, so that none of them runs on alone at the end."""
        base_bytes = self.file_slice.base_bytes if self.file_slice else 0
        return base_bytes + sum(piece.size_bytes for piece in self.pieces)


@dataclass(frozen=True)
class PartitionTask(UpsertTask):
    """All incoming rows of a partition that has at most one file group. The task finds out itself which rows are new."""


@dataclass(frozen=True)
class GroupTask(UpsertTask):
    """One file group, existing or new, whose changes were located before. The pieces hold rows of other groups too."""

    #: The rows of the slice that incoming rows meet; None: none.
    hits: HitBatch | None = None
    #: The incoming rows that are added to the group; None: none.
    new_rows: NewRowRange | None = None
    #: Whether changes are appended to the log of the slice. Otherwise its base file is rewritten.
    appends: bool = False
    #: The file of new rows, if it lists rows that must not come alive where a log has deleted them.
    elsewhere_file: str | None = None

    @property
    def file_id(self) -> str | None:
        """The file group; None if it is new."""
        return self.file_slice.file_id if self.file_slice else None


@dataclass(frozen=True)
class BucketTask(UpsertTask):
    """All incoming rows of one bucket of the bucket index. The slice is the only one that can hold their keys."""

    #: The file group of the bucket, existing or new.
    file_id: str = field(kw_only=True)
    #: A file slice of the partition whose keys are checked to belong to its bucket. Set where no table property says how many
    #: buckets there are.
    witness: FileSlice | None = None


@dataclass(frozen=True)
class InsertBucket:
    """Incoming rows that an insert adds to one file group, without looking for their keys."""

    partition_path: str
    pieces: tuple[Piece, ...]
    #: The slice that the rows are added to; None: a new file group.
    target: FileSlice | None = None

    @property
    def rows(self) -> int:
        """How many rows the pieces have."""
        return sum(piece.rows for piece in self.pieces)


@dataclass(frozen=True)
class InsertTask:
    """One insert bucket, and everything a worker needs to write it."""

    bucket: InsertBucket
    settings: FileSettings
    staging: Staging
    merger: Merger
    #: How the rows are reduced to one per key before they are merged into a base file by key; None: they are added unmerged.
    loading: TaskRowsSettings | None = None
    #: How log files are written, in a merge-on-read table.
    logs: LogSettings | None = None


def open_task_output(settings: FileSettings) -> TaskOutput:
    """Return the output of the task that is running. It numbers rows and names files after the task."""
    task = this_task()
    return TaskOutput(settings, task.number, task.write_token)

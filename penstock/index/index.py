"""`Index`: how a write finds the file groups that hold its keys, and what the index does before and after a commit.

A new index is one file with a class below `Index` (or `EntryIndex`, if it keeps entries in a key-value store), and one line in
`INDEXES` of `options/index_names.py`. `tests/contract/test_indexes.py` checks the contract of all indexes. The calls of a write:

    check → load → (rows staged) → check_unchanged → check_slices → before_tasks
    → (files written) → before_publish → after_publish

The planner of a write (`write/locate/plan.py`) locates keys in one of three ways. It hashes them into `buckets` if the index has
buckets. It looks up their entries in `store` if the index has a store. Otherwise it reads keys from base files, except from those
that `pruning` rules out by their footers.

An index is a frozen, picklable value: tasks carry it to the workers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock import options as o
from penstock.filegroup.model import FileSlice
from penstock.filegroup.task_output import FileSettings
from penstock.index.bucket_hash import Buckets
from penstock.index.entry_store import EntryStore
from penstock.index.previous_index import check_keys_are_in_base_files, check_same_buckets
from penstock.index.pruning import Pruning
from penstock.options import Options
from penstock.table.state import TableState
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import Instant
from penstock.workers.runner import Runner


@dataclass(frozen=True)
class WrittenFiles:
    """The data files of one write or clustering, for `Index.before_publish` and `Index.after_publish`."""

    #: The table, with the timeline that the write or clustering started from.
    table: TableState
    #: The instant time of the commit.
    instant: str
    stats: Sequence[WriteStat]
    runner: Runner
    #: How many tasks the runner runs concurrently.
    tasks_at_once: int
    #: Whether a clustering wrote the files. Then all their rows were in other file groups before.
    is_clustering: bool = False


class Index:
    """The base class of indexes, which locate the keys of incoming rows.

    A subclass is a frozen dataclass with `name` and `from_options`, and overrides what differs from the defaults below.
    """

    #: Whether a key is unique in the whole table. If false, a key is unique within its partition.
    is_global: bool = False
    #: Whether an incoming row with another partition than the stored row moves the row there. If false, the stored row is updated
    #: in its old partition. For global indexes only.
    moves_rows: bool = False
    #: The option that sets `moves_rows`, for messages.
    moves_option: str = ""
    #: Whether the index finds rows that are in log files only.
    finds_rows_in_logs: bool = False
    #: The buckets that keys are hashed into; None if the index has no buckets.
    buckets: Buckets | None = None
    #: The key-value store with an entry per key, which `before_publish` and `after_publish` update; None if the index has none.
    store: EntryStore | None = None
    #: Why `penstock.index=auto` must not choose another index; None if it may.
    reason_to_keep: str | None = "it was asked for"

    @property
    def name(self) -> str:
        """The value of `hoodie.index.type` that chooses this index."""
        raise NotImplementedError

    @property
    def pruning(self) -> Pruning:
        """The parts of base file footers (bloom filter, key range) by which the index skips files. By default none."""
        return Pruning()

    @property
    def inserts_into_logs(self) -> bool:
        """Whether new rows of a merge-on-read table are written to log files, in file groups without a base file.

        If true, `finds_rows_in_logs` must be true.
        """
        return False

    @property
    def setting(self) -> str:
        """The options that choose this index, with their values, for error messages."""
        return f"{o.INDEX_TYPE.key}={self.name}"

    @property
    def table_properties(self) -> dict[str, str]:
        """The index options that are stored in hoodie.properties of a new table, because later writes must not change them."""
        return {}

    @classmethod
    def from_options(cls, options: Options) -> Index:
        """Return the index with the settings of the options. Raise OptionError if a required option is missing."""
        raise NotImplementedError

    def load(self, table: TableState) -> Index:
        """Return a copy of the index with its state read from the table, for example hash rings.

        The default returns the index itself: most indexes have no state in the table.
        """
        return self

    # Before a write

    def check(self, table: TableState) -> None:
        """Raise OptionError if the index would not find all rows of the table. Called before anything is written."""
        check_same_buckets(table, self.buckets, self.setting)

    def check_overwrite(self, operation: str) -> None:
        """Raise Unsupported if the index does not support an operation that replaces file groups. The default supports all.

        Args:
            operation: the operation of the write, such as insert_overwrite.
        """

    def with_key_changes(self, settings: FileSettings) -> FileSettings:
        """Return the settings for the data files of a write, changed as the index needs. The default returns them unchanged.

        An index that keeps entries in a key-value store sets the folder in which tasks list the keys that they add and remove.
        """
        return settings

    # While a write is planned

    def check_slices(self, table: TableState, slices: Mapping[str, Sequence[FileSlice]]) -> None:
        """Raise OptionError if the index would not find all rows of the file slices.

        Args:
            slices: the file slices that may hold incoming keys, by partition path.
        """
        if not self.finds_rows_in_logs:
            check_keys_are_in_base_files(table, slices, self.setting)

    def check_unchanged(self, now: Index, partitions: Collection[str]) -> None:
        """Raise WriteConflict if the state of the index in the table (hash rings) changed since this index was loaded.

        Args:
            now: the index, loaded again after the write took its instant.
            partitions: the partition paths of the incoming rows.
        """

    def before_tasks(self, table: TableState, partitions: Collection[str]) -> None:
        """Store index state that the tasks of a write need, for example hash rings of new partitions.

        Called before the tasks start. The default does nothing.

        Args:
            partitions: the partition paths of the incoming rows.
        """

    # Around a commit

    def before_publish(self, files: WrittenFiles) -> int:
        """Store the locations of the rows in new files of a write or clustering; return the number of rows.

        The default does nothing and returns 0. An error stops the commit. Lookups must ignore the new locations until the commit
        is on the timeline.

        Args:
            files: the data files of the write or clustering.
        """
        return 0

    def after_publish(self, files: WrittenFiles) -> None:
        """Update the index after the commit of a write or clustering was published. The default does nothing.

        Must not raise an error, because the commit cannot be undone any more.
        """

    def after_rollback(
        self, table: TableState, instant: str, groups: Collection[tuple[str, str]], *, was_published: bool
    ) -> None:
        """Undo what `before_publish` and `after_publish` did for a write whose files a rollback has deleted.

        Args:
            instant: the instant time of the write.
            groups: (partition path, file id) of the file groups that the write changed.
            was_published: whether the write may have had a completed file on the timeline.

        Raises:
            StorageError: the rollback stays pending, and the next write or rollback finishes it.
        """

    def after_restore(self, table: TableState, undone: Sequence[Instant]) -> None:
        """Undo what `before_publish` and `after_publish` did for the writes whose files a restore has deleted.

        Args:
            undone: the instants of the writes, newest first.

        Raises:
            StorageError: the restore stays pending, and the next restore finishes it.
        """

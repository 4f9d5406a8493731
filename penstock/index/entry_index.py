"""`EntryIndex`: the base class of indexes that keep an entry per record key in a key-value store outside the table.

A subclass provides the `EntryStore`. The rest is the same for all stores: this class locates keys by reading their entries.
Around commits, rollbacks and restores it puts, removes and undoes entries, with the functions of `entry_store.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timezone
from itertools import chain

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.key_changes import KeyChange, key_changes_folder
from penstock.filegroup.model import FileSlice
from penstock.filegroup.task_output import FileSettings
from penstock.index.entry_store import (
    Entry,
    EntryStore,
    EntryTask,
    list_entry_tasks,
    put_entries,
    put_missing,
    remove_entries,
    undo_entries,
)
from penstock.index.index import Index, WrittenFiles
from penstock.index.previous_index import find_rows_of_other_index
from penstock.table.listing import list_base_slices, list_merged_slices
from penstock.table.slice_keys import read_keys
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import Instant, parse_time
from penstock.timeline.timeline import Timeline
from penstock.user_warning import warn_user


@dataclass(frozen=True)
class EntryIndex(Index):
    """Base class of indexes that keep one entry per record key in a key-value store, and locate keys by these entries.

    `undoes_entries` says whether a rollback or restore takes back the entries of the writes that it undoes.
    """

    store: EntryStore = field()
    moves_rows: bool = False
    #: Whether a rollback or restore undoes entries. If false, entries of the undone commit stay in the store and are ignored.
    undoes_entries: bool = False

    is_global = True
    finds_rows_in_logs = True
    inserts_into_logs = True
    reason_to_keep = "it keeps entries outside the table, which a write by another index would leave behind"

    def with_key_changes(self, settings: FileSettings) -> FileSettings:
        """Return a copy of the settings for data files in which `key_changes_folder` is set. Creates no folder.

        In that folder the tasks of the write list the keys that they add and remove. `before_publish` and `after_publish` read
        them.
        """
        return replace(settings, key_changes_folder=key_changes_folder(settings.base_path, settings.instant))

    def check(self, table: TableState) -> None:
        """Raise an error if the store cannot be used, or lacks entries for rows of the table.

        Raises:
            OptionError: the store does not exist or cannot hold entries, or its client is not installed; or the table has rows
                while the store has no entry; or another index added the newest rows.
            StorageError: the store does not answer.
        """
        super().check(table)
        with self.store.open() as entries:
            entries.check()
            is_empty = bool(table.timeline.writes) and entries.is_empty()
        if is_empty and _has_rows(table):
            raise OptionError(
                f"{self.setting} finds no entry in {self.store.title}, but {table.base_path} has rows, which would be written "
                f"twice. Set {self.store.option} to the one that holds its entries, or use the index that the table was written "
                "with"
            )
        rows_of_other_index = find_rows_of_other_index(table, self.name)
        if rows_of_other_index is not None and _has_rows(table):
            time, name = rows_of_other_index
            raise OptionError(
                f"{self.setting} has no entries of rows that write {time} of {table.base_path} added or moved with "
                f"{o.INDEX_TYPE.key}={name}: they would be written twice. Use GLOBAL_SIMPLE or GLOBAL_BLOOM from now on, or "
                "write the rows to a new table"
            )

    def before_publish(self, files: WrittenFiles) -> int:
        """Put an entry in the store for each key that the write added; return the number of these keys.

        Lookups ignore these entries until the commit is on the timeline.
        """
        # A key that is new to the table has no old entry, so old entries are read only if rows may have moved.
        timeline = files.table.timeline if self.moves_rows or files.is_clustering else None
        tasks = self._tasks(self.store, files, KeyChange.ADDED, timeline)
        if not tasks:
            return 0
        store = self.store.share_rate(min(len(tasks), files.tasks_at_once))
        return sum(files.runner.run(put_entries, [replace(task, store=store) for task in tasks], int))

    def after_publish(self, files: WrittenFiles) -> None:
        """Remove from the store the entries of keys that the write deleted.

        An error becomes a warning: the commit is published, and stale entries do no harm.
        """
        try:
            files.runner.run(remove_entries, self._tasks(self.store, files, KeyChange.REMOVED), int)
        except Exception as e:
            text = f"the write is done, but entries of keys that it deleted stay in the index, which does no harm: {e}"
            warn_user(text)

    def _tasks(
        self, store: EntryStore, files: WrittenFiles, change: KeyChange, timeline: Timeline | None = None
    ) -> list[EntryTask]:
        """Return a task for each data file of the write: to put the entries of added keys, or remove the entries of removed keys.

        Args:
            change: whether to return tasks for added or for removed keys.
            timeline: decides which existing entries are valid: those whose commit is on it. None if the keys cannot have entries
                yet.
        """
        table = files.table
        return list_entry_tasks(store, table.storage, table.base_path, files.instant, files.stats, change, timeline)

    def after_rollback(
        self, table: TableState, instant: str, groups: Collection[tuple[str, str]], *, was_published: bool
    ) -> None:
        """Undo the entries that a rolled back write put in the store. Does nothing if `undoes_entries` is false.

        If the write was published, it also removed the entries of keys that it deleted. After the rollback the rows of these keys
        exist again, in the file groups that the write changed. So every key of these file groups without an entry gets one.

        Args:
            instant: the instant time of the write.
            groups: (partition path, file id) of the file groups that the write changed.
            was_published: whether the write may have had a completed file on the timeline.
        """
        if not self.undoes_entries:
            return
        table = reload_timeline(table)
        undo_entries(self.store, instant, _began_ms(table, instant), table.timeline)
        if was_published:
            partitions = sorted({partition_path for partition_path, _ in groups})
            changed = (s for s in _list_slices(table, partitions) if (s.partition_path, s.file_id) in groups)
            self._put_missing(table, changed)

    def after_restore(self, table: TableState, undone: Sequence[Instant]) -> None:
        """Undo the entries that the writes in `undone` put, then put all missing entries.

        Does nothing if `undoes_entries` is false.

        Reads all keys of the table, because it may no longer be known which file groups the writes changed.
        """
        if not self.undoes_entries:
            return
        table = reload_timeline(table)
        for instant in undone:
            undo_entries(self.store, instant.time, _began_ms(table, instant.time), table.timeline)
        self._put_missing(table, _list_slices(table))

    def _put_missing(self, table: TableState, slices: Iterable[FileSlice]) -> None:
        """Put an entry for each key of the file slices that has no valid entry in the store.

        The commit in the entry is the instant of the base file, or of the file slice if there is no base file.
        """
        for file_slice in slices:
            commit = file_slice.base_file.instant if file_slice.base_file else file_slice.base_instant
            entry = Entry(commit, file_slice.file_id, file_slice.partition_path)
            put_missing(self.store, read_keys(table, file_slice), entry, table.timeline)


def _has_rows(table: TableState) -> bool:
    """Whether the table has any row. Stops reading after the first record key."""
    parts = chain.from_iterable(read_keys(table, file_slice) for file_slice in _list_slices(table))
    return any(len(keys) for keys in parts)


def _list_slices(table: TableState, partitions: Sequence[str] | None = None) -> Iterator[FileSlice]:
    """Yield the file slices that a snapshot query reads, of these partitions; of all partitions if `partitions` is None."""
    list_slices = list_merged_slices if table.is_merge_on_read else list_base_slices
    for slices in list_slices(table, partitions).values():
        yield from slices


def _began_ms(table: TableState, time: str) -> int:
    """Convert the instant time of a write to milliseconds since 1970, by the time zone of the table's timeline.

    `undo_entries` uses it to read versions of entries from before the write.
    """
    moment = parse_time(time)
    moment = moment.replace(tzinfo=timezone.utc) if table.config.timeline_utc else moment.astimezone()
    return int(moment.timestamp() * 1000)

"""Puts, removes and undoes the entries of an index that keeps one entry per record key in a key-value store.

    data files written → entries of new keys put → commit published → entries of deleted keys removed

An entry names the commit that put it, and is ignored unless that commit is on the timeline. So if a write crashes after it has
put entries, lookups return the same as before. An entry that replaces an older one, because its row moved, contains that older
entry, which is used if the new commit is never published. Entries of deleted keys are removed last: an entry that is removed too
late points to a file group without the row, which does no harm; an entry that is removed too early would let the row be written
twice.

Keys are converted to Python strings, batch by batch on the workers, because clients of key-value stores take them one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from penstock.filegroup.key_changes import KeyChange, find_key_changes, key_changes_folder, read_changed_keys
from penstock.storage import Storage
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class Entry:
    """The location of a record key: the partition and file group that hold its row, and the commit that put the entry."""

    commit: str
    file_id: str
    partition_path: str
    #: The entry that this one replaced. It is used if `commit` is not published.
    before: Entry | None = None


class Entries(Protocol):
    """An open connection to an entry store, used by one thread. Every method may raise StorageError."""

    def check(self) -> None:
        """Raise OptionError if the store does not exist or cannot hold entries."""

    def is_empty(self) -> bool:
        """Whether the store has no entry for any key."""

    def get(self, keys: Sequence[str], until_ms: int | None = None) -> list[Entry | None]:
        """Return the entry of each key; None for a key without entry.

        Args:
            until_ms: if given, return the versions that were written before this time (milliseconds since 1970), as far as the
                store keeps older versions.
        """

    def put(self, keys: Sequence[str], entries: Sequence[Entry]) -> None:
        """Write one entry for each key. An existing entry of the key is replaced."""

    def remove(self, keys: Sequence[str]) -> None:
        """Delete the entry of each key. A key without entry is ignored."""

    def made_by(self, commit: str) -> Iterator[list[tuple[str, Entry]]]:
        """Yield all entries that a commit put in the store, in batches of (key, entry)."""


class EntryStore(Protocol):
    """The address and settings of a key-value store. Frozen and picklable: each worker opens its own connection."""

    @property
    def title(self) -> str:
        """The name of the store in messages, for example `HBase's table trips`."""

    @property
    def option(self) -> str:
        """The key of the option that names the store, for error messages."""

    def open(self) -> AbstractContextManager[Entries]:
        """Open a connection for one thread. Raise StorageError if the store does not answer."""

    def share_rate(self, tasks: int) -> EntryStore:
        """Return a copy of the store with its limit of requests per second divided among `tasks` concurrent tasks."""


def valid_entry(timeline: Timeline, entry: Entry | None) -> Entry | None:
    """Return `entry` if its commit is on the timeline, otherwise the entry that it replaced if that entry's commit is.

    Return None if neither commit is on the timeline, or if `entry` is None.
    """
    while entry is not None and not timeline.is_visible(entry.commit):
        entry = entry.before
    return entry


@dataclass(frozen=True)
class EntryTask:
    """Task description of `put_entries` and `remove_entries`: the keys that a write added to a data file or removed from it."""

    store: EntryStore
    storage: Storage
    #: Path of the file that lists the keys.
    key_file: str
    file_id: str
    partition_path: str
    commit: str
    #: Decides which existing entries are valid; None if the keys cannot have entries yet.
    timeline: Timeline | None = None


def list_entry_tasks(
    store: EntryStore,
    storage: Storage,
    base_path: str,
    commit: str,
    stats: Sequence[WriteStat],
    change: KeyChange,
    timeline: Timeline | None = None,
) -> list[EntryTask]:
    """Return a task for each data file of a commit for which the write listed added or removed keys.

    Args:
        commit: the instant time of the commit.
        stats: the write stats of the commit.
        change: whether to return tasks for added or for removed keys.
        timeline: decides which existing entries are valid: those whose commit is on it. None if the keys cannot have entries yet.
    """
    stat_by_name = {(stat.path or "").rpartition("/")[2]: stat for stat in stats}
    key_files = find_key_changes(storage, key_changes_folder(base_path, commit), change, list(stat_by_name))
    tasks = []
    for name, key_file in key_files.items():
        stat = stat_by_name[name]
        tasks.append(EntryTask(store, storage, key_file, stat.file_id, stat.partition_path or "", commit, timeline))
    return tasks


def put_entries(task: EntryTask) -> int:
    """Put an entry for each key of a task; return the number of keys. Runs in the workers."""
    entry = Entry(task.commit, task.file_id, task.partition_path)
    count = 0
    with task.store.open() as entries:
        for part in read_changed_keys(task.storage, task.key_file):
            keys = part.to_pylist()
            entries.put(keys, _with_old_entries(entry, keys, entries, task.timeline))
            count += len(keys)
    return count


def _with_old_entries(entry: Entry, keys: Sequence[str], entries: Entries, timeline: Timeline | None) -> list[Entry]:
    """Return one new entry per key: a copy of `entry` whose field `before` is the key's current entry in the store.

    `before` is None if the key has no valid entry.

    Args:
        timeline: decides which stored entries are valid: those whose commit is on it. None: no stored entry is valid.
    """
    if timeline is None:
        return [entry] * len(keys)
    new_entries = []
    for stored in entries.get(keys):
        old = valid_entry(timeline, stored)
        new_entries.append(replace(entry, before=replace(old, before=None) if old else None))
    return new_entries


def remove_entries(task: EntryTask) -> int:
    """Remove the entry of each key of a task; return the number of keys. Runs in the workers."""
    count = 0
    with task.store.open() as entries:
        for part in read_changed_keys(task.storage, task.key_file):
            entries.remove(part.to_pylist())
            count += len(part)
    return count


def undo_entries(store: EntryStore, commit: str, began_ms: int, timeline: Timeline) -> int:
    """Undo the entries that a commit has put: restore the previous entry of each key, or remove the entry if there was none.

    Return the number of keys. Penstock stores the previous entry inside the new one (`Entry.before`). Hudi does not; for its
    entries the previous one is read from an older version of the row, if the store keeps older versions.

    Args:
        commit: the instant time of the commit.
        began_ms: when the commit began, in milliseconds since 1970.
    """
    count = 0
    # One connection scans while the other one changes what the scan has returned.
    with store.open() as scanned, store.open() as changed:
        for batch in scanned.made_by(commit):
            keys = [key for key, _ in batch]
            older_versions = changed.get(keys, until_ms=began_ms)
            old_entries = []
            for (_, entry), older_version in zip(batch, older_versions, strict=True):
                old_entries.append(valid_entry(timeline, entry.before or older_version))
            _reset_entries(changed, keys, old_entries)
            count += len(keys)
    return count


def _reset_entries(entries: Entries, keys: Sequence[str], old_entries: Sequence[Entry | None]) -> None:
    """Restore the old entry of each key. If the old entry is None, remove the entry of the key."""
    added_keys = []
    changed_keys = []
    restored = []
    for key, old in zip(keys, old_entries, strict=True):
        if old is None:
            added_keys.append(key)
        else:
            changed_keys.append(key)
            restored.append(replace(old, before=None))
    entries.remove(added_keys)
    entries.put(changed_keys, restored)


def put_missing(store: EntryStore, keys: Iterable[pa.Array], entry: Entry, timeline: Timeline) -> int:
    """Put `entry` for each key that has no valid entry; return the number of these keys.

    Args:
        store: the key-value store.
        keys: arrays of record keys.
        entry: the entry to put: the partition and file group that hold the rows of the keys, and a commit.
        timeline: decides which stored entries are valid: those whose commit is on it.
    """
    count = 0
    with store.open() as entries:
        for part in keys:
            texts = part.to_pylist()
            stored_entries = entries.get(texts)
            missing = [key for key, old in zip(texts, stored_entries, strict=True) if valid_entry(timeline, old) is None]
            entries.put(missing, [entry] * len(missing))
            count += len(missing)
    return count

"""What an index with entries of its own is told of a write, and when.

    data files written → entries of new keys put → commit published → entries of deleted keys removed

An entry names the commit that made it, and one whose commit is not on the timeline counts for nothing: so a write that dies
after its entries were put leaves the index as it was. An entry that takes the place of another, because its row moved, keeps
that one in a cell of its own until then. Entries of deleted keys go last: one that stays too long points to a file group where
its row is not any more, which does no harm, while one that goes too early would let the row be written twice.

Keys become Python texts here, batch by batch on the executors: the gateway's client takes them one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.filegroup.key_changes import KeyChange, find_key_changes, key_changes_folder, read_changed_keys
from penstock.index.hbase import Entries, Entry, HBaseSettings, open_entries
from penstock.storage import Storage
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class Placed:
    """Keys that a write has noted of one data file, and the file group that it belongs to."""

    noted: str
    file_id: str
    partition_path: str


@dataclass(frozen=True)
class TellTask:
    """Some keys, and what the index is told of them."""

    settings: HBaseSettings
    storage: Storage
    placed: Placed
    commit: str
    #: Where entries are replaced: what tells which of the old ones count.
    timeline: Timeline | None = None


def tell_tasks(
    settings: HBaseSettings,
    storage: Storage,
    base_path: str,
    commit: str,
    stats: Sequence[WriteStat],
    note: KeyChange,
    timeline: Timeline | None = None,
) -> list[TellTask]:
    """A task for each data file of which keys were noted."""
    by_name = {(stat.path or "").rpartition("/")[2]: stat for stat in stats}
    found = find_key_changes(storage, key_changes_folder(base_path, commit), note, list(by_name))
    placed = [Placed(path, by_name[name].file_id, by_name[name].partition_path or "") for name, path in found.items()]
    return [TellTask(settings, storage, each, commit, timeline) for each in placed]


def put_entries(task: TellTask) -> int:
    """Kernel: set the entries of keys that are new where they are; gives how many."""
    entry, count = Entry(task.commit, task.placed.file_id, task.placed.partition_path), 0
    with open_entries(task.settings) as entries:
        for part in read_changed_keys(task.storage, task.placed.noted):
            keys = part.to_pylist()
            put: Iterable[Entry] = [entry] * len(keys)
            if task.timeline is not None:
                timeline = task.timeline
                old = (standing(timeline, each) if each else None for each in entries.get(keys))
                put = (replace(entry, before=replace(was, before=None) if was else None) for was in old)
            entries.put(keys, list(put))
            count += len(keys)
    return count


def remove_entries(task: TellTask) -> int:
    """Kernel: remove the entries of keys that are gone; gives how many."""
    count = 0
    with open_entries(task.settings) as entries:
        for part in read_changed_keys(task.storage, task.placed.noted):
            entries.remove(part.to_pylist())
            count += len(part)
    return count


def standing(timeline: Timeline, entry: Entry) -> Entry | None:
    """The entry that counts: this one, or the one before it if its commit did not come to pass; None if neither does."""
    if timeline.is_visible(entry.commit):
        return entry
    return standing(timeline, entry.before) if entry.before else None


def share_rate(settings: HBaseSettings, at_once: int) -> HBaseSettings:
    """The settings with a put batch by what the region servers bear, where that is asked for."""
    if settings.auto_rate is None:
        return settings
    with open_entries(settings) as entries:
        servers = entries.check()
    return replace(settings, put_batch=put_batch(settings.auto_rate, servers, at_once))


def put_batch(per_server: float, servers: int, at_once: int) -> int:
    """Entries that each of some tasks may put in a second."""
    return max(1, int(per_server * servers) // max(1, at_once))


def undo_entries(settings: HBaseSettings, commit: str, began_ms: int, timeline: Timeline) -> int:
    """Take back the entries that a commit made, now that it is rolled back: what was before is put again; gives how many.

    What was before is in the entry itself, or, where real Hudi has put it, in an older version of the row, if HBase keeps any.
    """
    count = 0
    with open_entries(settings) as entries, open_entries(settings) as changing:
        for batch in entries.made_by(commit):
            keys = [key for key, _ in batch]
            older = changing.get(keys, until_ms=began_ms)
            restored = [entry.before or was for (_, entry), was in zip(batch, older, strict=True)]
            _restore(changing, keys, [standing(timeline, was) if was else None for was in restored])
            count += len(keys)
    return count


def _restore(entries: Entries, keys: Sequence[str], before: Sequence[Entry | None]) -> None:
    """Set each key's entry to what it was; none means that there was none."""
    entries.remove([key for key, was in zip(keys, before, strict=True) if was is None])
    kept = [(key, was) for key, was in zip(keys, before, strict=True) if was is not None]
    entries.put([key for key, _ in kept], [replace(was, before=None) for _, was in kept])


def put_missing(settings: HBaseSettings, keys: Iterable[pa.Array], entry: Entry, timeline: Timeline) -> int:
    """Set the entries of keys that have none that counts; gives how many had to be set."""
    count = 0
    with open_entries(settings) as entries:
        for part in keys:
            texts = part.to_pylist()
            found = entries.get(texts)
            lost = [key for key, was in zip(texts, found, strict=True) if was is None or standing(timeline, was) is None]
            entries.put(lost, [entry] * len(lost))
            count += len(lost)
    return count

"""What a clustering means to the index: rows are in other file groups afterwards.

An index that looks into files finds them there. One that keeps entries of its own is told before the commit, as by a write; one
that remembers what this process wrote, after it. Buckets are chosen by a hash of the key, so rows cannot leave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock import options as o
from penstock.errors import Unsupported
from penstock.filegroup.key_changes import KeyChange, key_changes_folder
from penstock.filegroup.task_output import FileSettings
from penstock.index import Index
from penstock.index.bucket import looks_bucketed
from penstock.index.consistent_hashing import has_rings
from penstock.index.entry_store import put_entries, share_rate, tell_tasks
from penstock.index.in_memory import remember
from penstock.spread.runner import Runner
from penstock.table import TableState
from penstock.timeline.commit_file import WriteStat


def check_movable(table: TableState, file_ids: Iterable[str] = ()) -> None:
    """Refuse a table with buckets.

    Args:
        file_ids: file groups of the table, which tell what its properties may not.

    Raises:
        Unsupported: it has.
    """
    ids = list(file_ids)
    says = "BUCKET" in (table.options[o.INDEX_TYPE].upper(), table.config.raw.get(o.INDEX_TYPE.key, "").upper())
    if says or (ids and looks_bucketed(ids)) or has_rings(table):
        raise Unsupported(
            f"{table.base_path} has buckets ({o.INDEX_TYPE.key}=BUCKET): a row belongs into the file group that the hash of its "
            "key chooses, and clustering would move it to another. Leave clustering out; compact a merge-on-read table instead"
        )


def noting_keys(settings: FileSettings, index: Index) -> FileSettings:
    """The settings of new files, so that an index can be told of their keys if it has to be."""
    if index.entries is None:
        return settings
    return replace(settings, key_changes_folder=key_changes_folder(settings.base_path, settings.instant))


def tell_before(table: TableState, index: Index, time: str, stats: Sequence[WriteStat], runner: Runner) -> int:
    """Put the entries of all rows in new files; gives how many. They count as soon as the clustering is part of the table.

    Args:

    Raises:
        StorageError: nobody answers.
    """
    if index.entries is None:
        return 0
    settings = share_rate(index.entries, max(1, len(stats)))
    tasks = tell_tasks(settings, table.storage, table.base_path, time, stats, KeyChange.ADDED, table.timeline)
    return sum(runner.run(put_entries, tasks, int))


def tell_after(table: TableState, index: Index, stats: Sequence[WriteStat]) -> None:
    """Remember the new file groups as written by this process, if the index goes by that."""
    if index.remembers:
        remember(table.base_path, ((stat.partition_path or "", stat.file_id) for stat in stats))

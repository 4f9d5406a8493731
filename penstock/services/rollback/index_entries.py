"""Rollback and restore, and an index that keeps entries: `hoodie.index.hbase.rollback.sync`.

Entries that the undone write has put are taken back, to what they were before. If it had been published, entries of keys that
it deleted are gone from the index; the rows are there again, in the file groups that the write had touched, so their entries
are put again too. Without the option nothing is done: entries of a commit that is not on the timeline count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timezone
from typing import Any

from penstock import options as o
from penstock.catalog.listing import latest_slices, merged_slices
from penstock.catalog.slice_keys import read_keys
from penstock.filegroup.model import FileSlice
from penstock.index import index_of
from penstock.index.entry_store import put_missing, undo_entries
from penstock.index.hbase import Entry, HBaseSettings
from penstock.table import TableState, reload_timeline
from penstock.timeline.instant import Instant, parse_time


def sync_index(table: TableState, time: str, requests: Sequence[Mapping[str, Any]], *, was_published: bool) -> None:
    """Undo what a write told the index, once its files are gone.

    Args:
        time: of the write.
        requests: which file groups it touched.

    Raises:
        StorageError: HBase does not answer; the rollback stays open and is taken up again.
    """
    settings = _synced(table)
    if settings is None:
        return
    table = reload_timeline(table)
    undo_entries(settings, time, _began_ms(table, time), table.timeline)
    if was_published:
        groups = {(request["partitionPath"], request["fileId"]) for request in requests}
        paths = sorted({path for path, _ in groups})
        _put_missing(settings, table, (one for one in _slices(table, paths) if (one.partition_path, one.file_id) in groups))


def sync_restored(table: TableState, undone: Sequence[Instant]) -> None:
    """Undo what writes told the index, once a restore has deleted their files; then every row of the table has an entry.

    All keys of the table are read for it: what the writes had touched may be known to nobody any more.

    Args:
        undone: the writes, newest first.

    Raises:
        StorageError: HBase does not answer; the restore stays open and is taken up again.
    """
    settings = _synced(table)
    if settings is None:
        return
    table = reload_timeline(table)
    for instant in undone:
        undo_entries(settings, instant.time, _began_ms(table, instant.time), table.timeline)
    _put_missing(settings, table, _slices(table))


def _synced(table: TableState) -> HBaseSettings | None:
    """How the index is reached; None if there is none, or it is to be left alone."""
    if table.options[o.INDEX_TYPE].upper() != "HBASE" or not table.options[o.HBASE_ROLLBACK_SYNC]:
        return None
    return index_of(table.options).entries


def _put_missing(settings: HBaseSettings, table: TableState, slices: Iterable[FileSlice]) -> None:
    """Every key of some slices has an entry; one that has to be put names a commit that put rows there."""
    for one in slices:
        entry = Entry(one.base_file.instant if one.base_file else one.base_instant, one.file_id, one.partition_path)
        put_missing(settings, read_keys(table, one), entry, table.timeline)


def _slices(table: TableState, partitions: Sequence[str] | None = None) -> Iterator[FileSlice]:
    """The file slices that stand now."""
    found = (merged_slices if table.is_merge_on_read else latest_slices)(table, partitions)
    return (one for its in found.values() for one in its)


def _began_ms(table: TableState, time: str) -> int:
    """When a write began, as HBase counts time."""
    moment = parse_time(time)
    return int((moment.replace(tzinfo=timezone.utc) if table.config.timeline_utc else moment.astimezone()).timestamp() * 1000)

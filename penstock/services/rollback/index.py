"""Rollback, and an index that keeps entries: `hoodie.index.hbase.rollback.sync`.

Entries that the undone write has put are taken back, to what they were before. If it had been published, entries of keys that
it deleted are gone from the index; the rows are there again, in the file groups that the write had touched, so their entries
are put again too. Without the option nothing is done: entries of a commit that is not on the timeline count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timezone
from typing import Any

import pyarrow as pa

from penstock import options as o
from penstock.filegroup.merged import merged_rows
from penstock.filegroup.model import FileSlice
from penstock.filegroup.read import open_base_file, read_row_groups
from penstock.filegroup.rows import KEY_COLUMN
from penstock.index import index_of
from penstock.index.entries import put_missing, undo_entries
from penstock.index.hbase import Entry
from penstock.merge.pair import flat
from penstock.metadata.listing import latest_slices, merged_slices
from penstock.metadata.merging import merged_rules
from penstock.table import TableState, reloaded, table_schema
from penstock.timeline.instant import parse_time


def sync_index(table: TableState, time: str, requests: Sequence[Mapping[str, Any]], *, was_published: bool) -> None:
    """Undo what a write told the index, once its files are gone.

    Args:
        time: of the write.
        requests: which file groups it touched.

    Raises:
        StorageError: HBase does not answer; the rollback stays open and is taken up again.
    """
    if table.options[o.INDEX_TYPE].upper() != "HBASE" or not table.options[o.HBASE_ROLLBACK_SYNC]:
        return
    settings = index_of(table.options).entries
    assert settings is not None
    table = reloaded(table)
    undo_entries(settings, time, _began_ms(table, time), table.timeline)
    if was_published:
        for slice_, commit in _touched(table, requests):
            entry = Entry(commit, slice_.file_id, slice_.partition_path)
            put_missing(settings, keys_of(table, slice_), entry, table.timeline)


def _began_ms(table: TableState, time: str) -> int:
    """When a write began, as HBase counts time."""
    moment = parse_time(time)
    return int((moment.replace(tzinfo=timezone.utc) if table.config.timeline_utc else moment.astimezone()).timestamp() * 1000)


def _touched(table: TableState, requests: Sequence[Mapping[str, Any]]) -> Iterator[tuple[FileSlice, str]]:
    """File slices that stand now where the write had changed something, and a commit that put rows there."""
    groups = {(request["partitionPath"], request["fileId"]) for request in requests}
    slices = (merged_slices if table.is_merge_on_read else latest_slices)(table, sorted({path for path, _ in groups}))
    for path, its in slices.items():
        for slice_ in its:
            if (path, slice_.file_id) in groups:
                yield slice_, slice_.base_file.instant if slice_.base_file else slice_.base_instant


def keys_of(table: TableState, slice_: FileSlice) -> Iterator[pa.Array]:
    """The keys of a slice's rows, in parts."""
    schema = pa.schema([pa.field(KEY_COLUMN, pa.string())])
    if slice_.log_files:
        rows = merged_rows(table.storage, slice_, merged_rules(table, table_schema(table) or ""), [KEY_COLUMN])
    elif slice_.base_file is not None:
        path = slice_.base_file.path
        rows = read_row_groups(open_base_file(table.storage, path), path, schema)
    else:
        rows = iter(())
    for part in rows:
        yield flat(part[KEY_COLUMN])

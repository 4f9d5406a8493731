"""The guard of catalog sync: what a sync of 150,000 partitions asks the catalog and the storage for.

`tests/table/test_catalog_sync.py` counts the requests to a real metastore, on fewer partitions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from bench.sync import PER_COMMIT, add_commit, make_table, partition_path
from penstock.storage import FileInfo, LocalStorage
from tests.kit.memory_catalog import MemoryCatalog

PARTITIONS = 150_000
BATCH = 1_000


def test_one_new_partition_of_150_000_takes_five_requests_and_no_listing_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = MemoryCatalog()
    penstock.sync_tool("counted")(lambda settings: catalog)
    options = {"hoodie.meta.sync.client.tool.class": "counted", "hoodie.datasource.hive_sync.batch_num": BATCH}
    path = make_table(tmp_path / "t", PARTITIONS)

    (first,) = penstock.Table.open(path).sync(options)
    assert (first.added, first.moved, first.dropped) == (PARTITIONS, 0, 0)
    assert dict(catalog.calls) == {
        "has_database": 1,
        "create_database": 1,
        "get_table": 1,
        "create_table": 1,
        "add_partitions": PARTITIONS // BATCH,
        "alter_table": 1,
    }

    listed: list[str] = []
    plain = LocalStorage.list

    def note(storage: LocalStorage, folder: str) -> list[FileInfo]:
        listed.append(Path(folder).name)
        return plain(storage, folder)

    monkeypatch.setattr(LocalStorage, "list", note)
    catalog.calls.clear()
    add_commit(path, PARTITIONS // PER_COMMIT + 1, [partition_path(PARTITIONS)])
    (second,) = penstock.Table.open(path).sync(options)
    assert (second.added, second.moved, second.dropped) == (1, 0, 0)
    assert dict(catalog.calls) == {
        "has_database": 1,
        "get_table": 1,
        "list_partitions": 1,
        "add_partitions": 1,
        "alter_table": 1,
    }
    assert set(listed) == {".hoodie", ".schema"}

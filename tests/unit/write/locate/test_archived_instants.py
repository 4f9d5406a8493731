"""A write that plans while archiving takes instants from the timeline that it has loaded."""

from __future__ import annotations

import uuid

import pytest

from penstock import options as o
from penstock.commit.replace import list_replaced_groups
from penstock.errors import TableChanged
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name
from penstock.options import Options
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, write_commit
from penstock.timeline.store import load_timeline
from penstock.write.locate.file_slices import list_write_slices
from penstock.write.locate.small_files import read_sizing


@pytest.fixture
def table() -> TableState:
    """A table whose replacecommit is archived after its timeline was loaded."""
    storage = MemoryStorage(uuid.uuid4().hex)
    storage.write_new(f"/t/a/{PARTITION_METAFILE}", b"")
    storage.write_new(f"/t/a/{base_file_name('f-0', '0-0-0', '1')}", b"")
    storage.write_new("/t/.hoodie/1.replacecommit", write_commit(CommitMetadata(operation="CLUSTER", replaced={"a": ("g-0",)})))
    timeline = load_timeline(storage, "/t")
    storage.delete("/t/.hoodie/1.replacecommit")
    return TableState(storage, "/t", TableConfig({"hoodie.table.name": "t"}), Options({}), timeline)


def test_a_write_that_misses_an_instant_begins_again(table: TableState) -> None:
    with pytest.raises(TableChanged, match="archived just now"):
        list_write_slices(table, ["a"], instant="2", logs_alone=False)
    with pytest.raises(TableChanged, match="archived just now"):
        list_replaced_groups(table, None)


def test_the_size_of_a_record_is_estimated_without_the_instant(table: TableState) -> None:
    assert read_sizing(table, table.options).record_bytes == table.options[o.RECORD_SIZE_ESTIMATE]

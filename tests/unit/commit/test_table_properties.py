"""Changes of `hoodie.properties` by processes that have loaded the table at different times."""

from __future__ import annotations

import threading

import pytest

from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.table_lock import locked
from penstock.errors import LockTimeout
from penstock.options import read_options
from penstock.storage import MemoryStorage
from penstock.table.config import read_config, write_config
from penstock.table.state import TableState
from penstock.timeline.timeline import Timeline
from penstock.write.create_table import store_ordered_deletes

SEVERAL = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "in_process",
    "hoodie.write.lock.wait_time_ms": "10",
    "hoodie.write.lock.client.num_retries": "0",
    "penstock.deletes.follow.ordering": "true",
}
PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.table.metadata.partitions": "files",
}


@pytest.fixture
def table(request: pytest.FixtureRequest) -> TableState:
    storage = MemoryStorage(request.node.name)
    config = write_config(storage, "/t", PROPERTIES, new=True)
    return TableState(storage, "/t", config, read_options(SEVERAL), Timeline())


def test_a_change_keeps_what_another_process_has_changed(table: TableState) -> None:
    turn_off_metadata_table(table)
    changed = store_ordered_deletes(table)
    for raw in (changed.config.raw, read_config(table.storage, "/t").raw):
        assert "hoodie.table.metadata.partitions" not in raw
        assert raw["penstock.deletes.follow.ordering"] == "true"


def test_a_change_waits_for_the_lock(table: TableState) -> None:
    errors: list[BaseException] = []

    def change() -> None:
        try:
            turn_off_metadata_table(table)
        except LockTimeout as e:
            errors.append(e)

    with locked(table):
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
    assert len(errors) == 1
    assert "hoodie.table.metadata.partitions" in read_config(table.storage, "/t").raw

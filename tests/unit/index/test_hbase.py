"""Entries of the HBase index as values, and what the options make of them; the server's part is in tests/services."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from penstock import options as o
from penstock.errors import OptionError, StorageError
from penstock.index import make_index
from penstock.index.entry_index import EntryIndex
from penstock.index.entry_store import Entry, valid_entry
from penstock.index.hbase import _Rate, compute_put_batch, entry_cells, make_store
from penstock.options import read_options
from penstock.timeline.timeline import Timeline

NEEDED = {o.INDEX_TYPE.key: "HBASE", o.HBASE_QUORUM.key: "zk1:2181, zk2", o.HBASE_TABLE.key: "trips"}


def test_an_entry_has_the_cells_of_hudi() -> None:
    entry = Entry("20240101000000000", "f-0", "year=2024/ä")
    assert entry_cells(entry) == {
        b"_s:commit_ts": b"20240101000000000",
        b"_s:file_name": b"f-0",
        b"_s:partition_path": "year=2024/ä".encode(),
    }
    moved = Entry("2", "g-0", "b", before=Entry("1", "f-0", "a"))
    assert json.loads(entry_cells(moved)[b"_s:penstock_before"]) == ["2", "1", "f-0", "a"]


def test_an_entry_counts_if_its_commit_is_completed_or_archived() -> None:
    timeline = Timeline.from_names(
        ["20240102000000000.commit", "20240103000000000.deltacommit.inflight", "20240104000000000.commit"]
    )
    old = Entry("20240102000000000", "f-0", "a")
    assert valid_entry(timeline, old) == old
    assert valid_entry(timeline, Entry("20240103000000000", "g-0", "b")) is None
    assert valid_entry(timeline, Entry("20240103000000000", "g-0", "b", before=old)) == old
    assert valid_entry(timeline, Entry("20240105000000000", "g-0", "b")) is None
    archived = Entry("20230101000000000", "f-0", "a")
    assert valid_entry(timeline, archived) == archived
    assert valid_entry(Timeline(), archived) is None


def test_the_gateway_is_on_the_first_host_of_the_quorum_unless_said_otherwise() -> None:
    settings = make_store(read_options(NEEDED))
    assert (settings.address, settings.table, settings.get_batch, settings.put_batch) == ("zk1:9090", "trips", 100, 100)
    told = {**NEEDED, o.HBASE_THRIFT_HOST.key: "gate", o.HBASE_THRIFT_PORT.key: "9191"}
    assert make_store(read_options(told)).address == "gate:9191"
    for missing in (o.HBASE_QUORUM, o.HBASE_TABLE):
        options = {key: text for key, text in NEEDED.items() if key != missing.key}
        with pytest.raises(OptionError, match=missing.key):
            make_index(read_options(options))


def test_the_index_is_global_and_finds_rows_in_logs() -> None:
    index = make_index(read_options({**NEEDED, o.HBASE_UPDATE_PARTITION_PATH.key: "true"}))
    assert (index.is_global, index.finds_rows_in_logs, index.moves_rows, index.moves_option) == (
        True,
        True,
        True,
        o.HBASE_UPDATE_PARTITION_PATH.key,
    )
    assert isinstance(index, EntryIndex)


def test_the_put_batch_follows_from_the_rate_of_region_servers() -> None:
    auto = make_store(read_options({**NEEDED, o.HBASE_PUT_BATCH_AUTO.key: "true", o.HBASE_QPS_FRACTION.key: "0.25"}))
    assert auto.rows_per_server == 250
    assert compute_put_batch(250.0, servers=3, tasks=4) == 187
    assert compute_put_batch(0.1, servers=1, tasks=8) == 1


def test_requests_wait_so_that_rows_keep_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("penstock.clock.monotonic_s", lambda: now[0])
    monkeypatch.setattr("penstock.clock.sleep_s", sleep)
    pace = _Rate(100)
    for _ in range(4):
        pace.take(100)
    assert slept == [1.0, 1.0, 1.0]
    now[0] += 60
    pace.take(100)
    assert len(slept) == 3, "what was not used is not saved up beyond a second"
    pace.take(50)
    assert slept[3:] == [0.5]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_gateway_that_does_not_answer_is_an_error_within_the_timeout(silent_port: int) -> None:
    pytest.importorskip("happybase", reason="needs the client of HBase (make setup)")
    hurry = {o.HBASE_SESSION_TIMEOUT.key: "300", o.HBASE_CONNECTION_TIMEOUT.key: "300"}
    told = {**NEEDED, **hurry, o.HBASE_QUORUM.key: "127.0.0.1,zk2", o.HBASE_THRIFT_PORT.key: str(silent_port)}
    began = time.monotonic()
    with (
        pytest.raises(StorageError, match=r"did not answer in time.*the first host of hoodie.index.hbase.zkquorum=127.0.0.1,zk2"),
        make_store(read_options(told)).open() as entries,
    ):
        entries.check()
    gateway = {**told, o.HBASE_THRIFT_HOST.key: "nobody.invalid"}
    with (
        pytest.raises(StorageError, match=r"cannot be reached.*penstock.hbase.thrift.host=nobody.invalid"),
        make_store(read_options(gateway)).open(),
    ):
        pass
    assert time.monotonic() - began < 5

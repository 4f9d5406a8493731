"""What the driver reads of log headers while a query is planned, and what it does about a damaged log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import CorruptFile
from penstock.filegroup.model import FileSlice
from penstock.formats.log import encode_avro_block
from penstock.options import Options
from penstock.read.log_headers import read_log_headers
from penstock.read.plan import QueryPlan
from penstock.read.query import Query
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.timeline import Timeline
from tests.unit.filegroup.slices import AVRO, Slice, data, rows

DAMAGED = b"no log"


def plan_of(made: Slice, *slices: FileSlice) -> QueryPlan:
    timeline = Timeline.from_names(["01.deltacommit", "02.deltacommit"])
    table = TableState(made.storage, "/t", TableConfig({}), Options({}), timeline)
    by_path = {file_slice.partition_path: [file_slice] for file_slice in slices}
    return QueryPlan(table, Query("/t", "snapshot", Options({})), None, by_path)


def test_a_plan_carries_the_blocks_that_count_and_the_rows_they_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.read.log_headers._LARGE_BASE_BYTES", 0)
    written = encode_avro_block(rows("02", ("a", 2, 2)), instant="02", schema=AVRO, positions=np.array([7]))
    made = Slice().base(("a", 1, 1)).log(written, data("09", ("b", 1, 1)), of="02")
    plan = read_log_headers(plan_of(made, made.made))
    assert [found.block.instant for found in plan.log_scans[made.made].blocks] == ["02"]
    assert plan.touched[made.made].tolist() == [7]


def test_small_base_files_are_left_to_workers_and_their_positions_are_not_decoded() -> None:
    written = encode_avro_block(rows("02", ("a", 2, 2)), instant="02", schema=AVRO, positions=np.array([7]))
    made = Slice().base(("a", 1, 1)).log(written, of="02")
    plan = read_log_headers(plan_of(made, made.made))
    assert set(plan.log_scans) == {made.made}
    assert plan.touched == {}


def test_many_logs_on_small_base_files_are_left_to_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.read.log_headers._FEW_LOG_FILES", 0)
    made = Slice().base(("a", 1, 1)).log(DAMAGED)
    assert read_log_headers(plan_of(made, made.made)).log_scans == {}


def test_logs_on_a_remote_storage_are_left_to_workers_which_read_rows_in_the_same_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Slice().base(("a", 1, 1)).log(DAMAGED)
    monkeypatch.setattr(type(made.storage), "uri", lambda self, path: f"s3a://bucket{path}")
    assert read_log_headers(plan_of(made, made.made)).log_scans == {}


def test_positions_are_not_read_for_a_spark_that_cannot_read_the_base_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.read.log_headers._LARGE_BASE_BYTES", 0)
    written = encode_avro_block(rows("02", ("a", 2, 2)), instant="02", schema=AVRO, positions=np.array([7]))
    made = Slice().base(("a", 1, 1)).log(written, of="02")
    assert read_log_headers(plan_of(made, made.made), for_spark=False).touched == {}


@pytest.mark.parametrize("large_base_bytes", [0, 1 << 40], ids=["base files by Spark", "base files by workers"])
def test_a_damaged_log_is_an_error_in_the_only_partition_and_a_warning_in_one_of_several(
    monkeypatch: pytest.MonkeyPatch, large_base_bytes: int
) -> None:
    monkeypatch.setattr("penstock.read.log_headers._LARGE_BASE_BYTES", large_base_bytes)
    made = Slice().base(("a", 1, 1)).log(DAMAGED)
    damaged = made.made
    intact = replace(damaged, partition_path="p", log_files=())
    with pytest.raises(CorruptFile, match="there is no block"):
        read_log_headers(plan_of(made, damaged))
    with pytest.warns(RuntimeWarning, match="a query that reads partition '' of /t fails: .*there is no block"):
        plan = read_log_headers(plan_of(made, damaged, intact))
    assert plan.log_scans == {}

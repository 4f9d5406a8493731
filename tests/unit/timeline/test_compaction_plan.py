"""Compaction plans as bytes: what Hudi wrote is read, what is written is what its schema says."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from penstock.errors import CorruptFile
from penstock.formats.avro.container import write_container
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, read_compaction_plan, write_compaction_plan

REAL = Path(__file__).resolve().parents[2] / "data" / "timeline" / "20251220210129235.compaction.requested"
METRICS = {
    "TOTAL_LOG_FILES": 2.0,
    "TOTAL_LOG_FILES_SIZE": 2117.0,
    "TOTAL_IO_READ_MB": 1.0,
    "TOTAL_IO_WRITE_MB": 1.0,
    "TOTAL_IO_MB": 2.0,
}
WITH_BASE = CompactionOperation("a/b", "f-0", "1", "f-0_0-0-0_1.parquet", (".f-0_1.log.1_0-0-0", ".f-0_1.log.2_0-0-0"), METRICS)
LOGS_ALONE = CompactionOperation("", "g-0", "2", None, (".g-0_2.log.1_0-0-0",), METRICS)
PLAN = CompactionPlan((WITH_BASE, LOGS_ALONE))


def test_a_plan_is_read_as_it_was_written() -> None:
    assert read_compaction_plan(write_compaction_plan(PLAN), "1.compaction.requested") == PLAN


def test_fastavro_reads_the_plan_with_hudis_names() -> None:
    reader = fastavro.reader(io.BytesIO(write_compaction_plan(PLAN)))
    record: Any = next(iter(reader))
    assert record["version"] == 2
    assert record["strategy"] is None
    assert record["operations"][0] == {
        "baseInstantTime": "1",
        "deltaFilePaths": [".f-0_1.log.1_0-0-0", ".f-0_1.log.2_0-0-0"],
        "dataFilePath": "f-0_0-0-0_1.parquet",
        "fileId": "f-0",
        "partitionPath": "a/b",
        "metrics": METRICS,
        "bootstrapFilePath": None,
    }
    assert record["operations"][1]["dataFilePath"] is None
    assert record["operations"][1]["partitionPath"] == ""


def test_the_schema_in_the_file_is_the_one_real_hudi_writes_but_for_what_newer_releases_added() -> None:
    def fields(data: bytes) -> list[object]:
        schema = json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])
        return [f for f in schema["fields"] if f["name"] != "missingSchedulePartitions"]

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in ("doc", "namespace")}
        if isinstance(value, str):
            return value.rpartition(".")[2]  # the namespace is said once, or with every name
        return [plain(v) for v in value] if isinstance(value, list) else value

    assert plain(fields(write_compaction_plan(PLAN))) == plain(fields(REAL.read_bytes()))


def test_a_plan_of_real_hudi_is_read() -> None:
    plan = read_compaction_plan(REAL.read_bytes(), REAL.name)
    assert [one.partition_path for one in plan.operations] == ["city=chennai", "city=san_francisco", "city=sao_paulo"]
    assert [len(one.log_files) for one in plan.operations] == [2, 1, 1]
    assert plan.operations[0].base_file == "6e1d5cc4-c487-487d-abbe-fe9b30b1c0cc-0_2-986-2794_20251220210108078.parquet"
    assert plan.operations[0].metrics["TOTAL_LOG_FILES_SIZE"] == 2117
    assert plan.extra == {"_hoodie.spark.sql.writes.prepped": "true"}
    assert plan.runner is None


def test_an_old_plan_names_files_with_their_folders() -> None:
    operation = {
        "baseInstantTime": "1",
        "deltaFilePaths": ["file:/t/p/.f-0_1.log.1_0-0-0"],
        "dataFilePath": "file:/t/p/f-0_0-0-0_1.parquet",
        "fileId": "f-0",
        "partitionPath": "p",
        "metrics": None,
    }
    content = write_container("HoodieCompactionPlan", {"operations": [operation], "version": 1})
    (read,) = read_compaction_plan(content, "x").operations
    assert (read.base_file, read.log_files) == ("f-0_0-0-0_1.parquet", (".f-0_1.log.1_0-0-0",))


def test_a_plan_without_operations_is_an_empty_one() -> None:
    assert read_compaction_plan(write_container("HoodieCompactionPlan", {"operations": None}), "x").operations == ()


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_torn_plan_is_an_error_that_names_the_file(cut: int) -> None:
    with pytest.raises(CorruptFile, match=r"7\.compaction\.requested is not a compaction plan"):
        read_compaction_plan(write_compaction_plan(PLAN)[:cut], "7.compaction.requested")


@pytest.mark.parametrize("name", ["fileId", "baseInstantTime"])
def test_an_operation_without_its_file_group_is_an_error(name: str) -> None:
    operation = {"fileId": "f-0", "baseInstantTime": "1", name: None}
    with pytest.raises(CorruptFile, match=f"has no {name}"):
        read_compaction_plan(write_container("HoodieCompactionPlan", {"operations": [operation]}), "x")


def test_a_file_of_another_kind_is_not_a_plan() -> None:
    with pytest.raises(CorruptFile, match="is not a compaction plan"):
        read_compaction_plan(write_container("HoodieRollbackPlan", {}), "x")

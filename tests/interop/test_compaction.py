"""Compactions across engines: each engine runs what the other planned, and both write the same commit metadata."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.compaction.service import COMPACTION
from penstock.services.planned import schedule_and_run
from penstock.table.state import open_table
from tests.interop.sides import Row, trips, trips_of
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.oracle import Oracle
from tests.kit.plain import pending, plain_rows
from tests.kit.templates import Templates
from tests.table.tables import OPERATION, TRIPS, base_files, commits, stats, timeline

pytestmark = pytest.mark.oracle

MOR = {
    **TRIPS,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}

FIRST: tuple[Row, ...] = (("a", "berlin", 1, 1.5), ("b", "berlin", 2, 2.5), ("c", "paris", 3, 3.5), ("d", "paris", 4, 4.5))
CHANGES: tuple[Row, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5))
GONE: tuple[Row, ...] = (("b", "berlin", 2, 2.5),)
COMPACTED: tuple[Row, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5), ("d", "paris", 4, 4.5))
LATER: tuple[Row, ...] = (("a", "berlin", 10, 10.5), ("e", "tokyo", 1, 0.5))
ALL: tuple[Row, ...] = (*LATER, *COMPACTED[1:])


@pytest.fixture(params=["0.15.0", "penstock"])
def writer(request: pytest.FixtureRequest, hudi015: Oracle, spark: Any) -> Any:
    """The engine that writes the table."""

    def ours(path: str, rows: Sequence[Row], operation: str) -> None:
        frame = spark.createDataFrame(trips(*rows))
        frame.write.format("hudi").options(**{**MOR, OPERATION: operation}).mode("append").save(path)

    def theirs(path: str, rows: Sequence[Row], operation: str) -> None:
        hudi015.write(path, trips(*rows), {**MOR, OPERATION: operation})

    return ours if request.param == "penstock" else theirs


@pytest.fixture
def path(writer: Any, table_path: str, templates: Templates) -> str:
    """A table with updates and a delete in log files."""

    def make(path: str) -> None:
        writer(path, FIRST, "insert")
        writer(path, CHANGES, "upsert")
        writer(path, GONE, "delete")

    return templates.copy(f"to-compact-{writer.__name__}", make, table_path)


def read(oracle: Oracle, path: str, kind: str = "snapshot") -> list[Row]:
    return trips_of(oracle.read(path, {"hoodie.datasource.query.type": kind}))


def call(oracle: Oracle, op: str, path: str, **more: str) -> list[dict[str, Any]]:
    """Call Hudi's procedure. It schedules after a single delta commit."""
    given = "".join(f", {name} => '{value}'" for name, value in more.items())
    options = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
    return oracle.sql(f"CALL run_compaction(op => '{op}', path => '{path}', options => '{options}'{given})")


def log_files(path: str) -> list[Path]:
    return sorted(file for file in Path(path).rglob(".*.log.*") if not file.name.endswith(".crc"))


def test_hudi_runs_a_compaction_that_we_planned(hudi015: Oracle, writer: Any, path: str, spark: Any) -> None:
    plan = penstock.Table.open(path, spark).schedule_compaction()
    assert plan is not None
    assert plan.file_groups == 2
    writer(path, LATER, "upsert")
    assert read(hudi015, path) == sorted(ALL)
    call(hudi015, "execute", path)
    assert f"{plan.instant}.commit" in timeline(path)
    assert read(hudi015, path) == sorted(ALL)
    assert read(hudi015, path, "read_optimized") == sorted((*COMPACTED, LATER[1]))
    assert len(penstock.Table.open(path, spark).pending_compactions()) == 0


def test_we_run_a_compaction_that_hudi_planned(hudi015: Oracle, writer: Any, path: str, spark: Any) -> None:
    call(hudi015, "schedule", path)
    table = penstock.Table.open(path, spark)
    (plan,) = table.pending_compactions()
    assert (plan.state, plan.file_groups) == ("requested", 2)
    writer(path, LATER, "upsert")
    (commit,) = table.compact(plan.instant)
    assert (commit.operation, commit.rows_updated, commit.rows_deleted) == ("compact", 2, 1)
    assert read(hudi015, path) == sorted(ALL)
    assert read(hudi015, path, "read_optimized") == sorted((*COMPACTED, LATER[1]))
    hudi015.write(path, trips(("d", "paris", 11, 11.5)), {**MOR, OPERATION: "upsert"})
    assert read(hudi015, path) == sorted((*ALL[:-1], ("d", "paris", 11, 11.5)))


def test_our_compaction_and_hudis_write_the_same_rows_and_stats(hudi015: Oracle, path: str, spark: Any) -> None:
    other = f"{path}-other"
    shutil.copytree(path, other)
    call(hudi015, "run", path)
    penstock.Table.open(other, spark).compact()
    theirs, ours = (read_whole(hudi015, each) for each in (path, other))
    assert ours == theirs
    assert read_commit_facts(other) == read_commit_facts(path)


def read_whole(oracle: Oracle, path: str) -> list[dict[str, Any]]:
    """Return rows with the meta columns that do not name files."""
    found = oracle.read(path).drop_columns(["_hoodie_file_name"])
    return sorted(found.to_pylist(), key=lambda row: str(row["id"]))


def read_commit_facts(path: str) -> list[dict[str, Any]]:
    """Return the metadata of a compaction's commit, without what depends on the engine and the time."""
    last = commits(path)[-1]
    assert last["compacted"] is True
    assert last["operationType"] == "COMPACT"
    assert json.loads(last["extraMetadata"]["schema"])["type"] == "record"
    unlike = ("path", "totalWriteBytes", "fileSizeInBytes", "runtimeStats", "minEventTime", "maxEventTime")
    return sorted(({k: v for k, v in stat.items() if k not in unlike} for stat in stats(last)), key=lambda s: str(s["fileId"]))


@pytest.mark.parametrize("writer", ["0.15.0"], indirect=True)
def test_hudi_runs_a_plan_again_whose_run_by_us_died(hudi015: Oracle, path: str, spark: Any) -> None:
    with injected(FaultPlan(f"{path}-plan", fault=Fault.BEFORE, match=r"^write_new .*\.commit$")), pytest.raises(Crash):
        schedule_and_run(spark, open_table(f"crash:{path}", read_options({})), COMPACTION, Stages("", "off"), due=True)
    assert any(name.endswith(".compaction.inflight") for name in pending(path))
    before = len(base_files(path))
    call(hudi015, "execute", path)
    assert read(hudi015, path, "read_optimized") == sorted(COMPACTED)
    assert len(base_files(path)) == before  # the dead run's files are gone, and as many new ones are there


@pytest.mark.parametrize("writer", ["penstock"], indirect=True)
def test_we_run_a_plan_again_whose_run_by_hudi_died(hudi015: Oracle, path: str, spark: Any) -> None:
    """As Hudi leaves it: inflight, a base file, and the marker that announced it."""
    call(hudi015, "schedule", path)
    table = penstock.Table.open(path, spark)
    instant = table.pending_compactions()[0].instant
    (Path(path) / ".hoodie" / f"{instant}.compaction.inflight").touch()
    half = base_files(path)[0]
    name = f"{half.name.split('_')[0]}_7-7-7_{instant}.parquet"
    half.with_name(name).write_bytes(b"PAR1")
    marker = Path(path) / ".hoodie" / ".temp" / instant / half.parent.name / f"{name}.marker.MERGE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    table.compact()
    assert not half.with_name(name).exists()
    assert read(hudi015, path, "read_optimized") == sorted(COMPACTED)
    assert pending(path) == []


@pytest.mark.parametrize("writer", ["0.15.0"], indirect=True)
def test_hudi_continues_with_a_table_whose_plan_we_unscheduled(hudi015: Oracle, writer: Any, path: str, spark: Any) -> None:
    table = penstock.Table.open(path, spark)
    plan = table.schedule_compaction()
    assert plan is not None
    writer(path, LATER, "upsert")
    table.unschedule_compaction(plan.instant)
    assert not any(plan.instant in file.name for file in log_files(path))
    assert read(hudi015, path) == sorted(ALL)
    call(hudi015, "run", path)
    assert read(hudi015, path, "read_optimized") == sorted(ALL)


JOINING = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": "2"}


def test_hudi_reads_and_compacts_logs_that_we_compacted_into_one(hudi015: Oracle, writer: Any, path: str, spark: Any) -> None:
    writer(path, LATER, "upsert")
    (commit,) = penstock.Table.open(path, spark).compact_logs({"hoodie.log.compaction.blocks.threshold": 2})
    assert commit.operation == "log_compact"
    for optimized in ("false", "true"):
        assert trips_of(hudi015.read(path, {"hoodie.optimized.log.blocks.scan.enable": optimized})) == sorted(ALL)
    writer(path, (("a", "berlin", 12, 12.5),), "upsert")
    expected = sorted((("a", "berlin", 12, 12.5), *ALL[1:]))
    assert read(hudi015, path) == expected
    call(hudi015, "run", path)
    assert read(hudi015, path, "read_optimized") == expected


def test_we_read_and_compact_logs_that_hudi_compacted_into_one(hudi015: Oracle, path: str, spark: Any) -> None:
    hudi015.write(path, trips(*LATER), {**MOR, OPERATION: "upsert", **JOINING})
    assert "LOG_COMPACT" in [commit["operationType"] for commit in commits(path)]
    assert plain_rows(path) == sorted(ALL, key=repr)
    hudi015.write(path, trips(("a", "berlin", 12, 12.5)), {**MOR, OPERATION: "upsert"})
    expected = sorted((("a", "berlin", 12, 12.5), *ALL[1:]))
    assert plain_rows(path) == sorted(expected, key=repr)
    penstock.Table.open(path, spark).compact()
    assert read(hudi015, path, "read_optimized") == expected

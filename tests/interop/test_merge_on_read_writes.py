"""Merge-on-read tables that Penstock writes, read and written by real Hudi 0.15.

Hudi reads the same rows by both views, writes the same history with the same counts, and rolls back log blocks of a dead write
of Penstock, as Penstock rolls back those of Hudi.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.avro.container import read_container
from penstock.formats.log import BlockType, read_deletes, read_rows, scan_blocks
from tests.crash.scenes import CHANGES, FIRST, LATER, PUBLISHING, Runner, Step, with_later
from tests.interop.sides import (
    INDEX,
    KEY,
    NAME,
    OPERATION,
    ORDERING,
    PARTITION,
    TRIPS,
    Penstock,
    Row,
    deletable_trips,
    timeline,
    trips,
    trips_of,
)
from tests.kit.faults import Crash, FaultPlan, injected
from tests.kit.oracle import Oracle
from tests.kit.plain import plain_rows
from tests.kit.readers import hudi_rs_rows

MOR = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
}
BLOCKS = "hoodie.logfile.data.block.format"
OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
FORMATS = pytest.mark.parametrize("kind", ["avro", "parquet"])

#: (operation, rows). Times go up, so that every reader means the same.
HISTORY: list[tuple[str, pa.Table]] = [
    ("bulk_insert", deletable_trips(*((f"k{i}", "xyz"[i % 3], 1, float(i), False) for i in range(9)))),
    ("upsert", deletable_trips(("k0", "x", 2, 10.0, False), ("k3", "x", 2, None, True), ("k1", "y", 2, 11.0, False))),
    # The same key twice, and a new row that has the small file of z rewritten with it.
    ("upsert", deletable_trips(("k2", "z", 3, 12.0, False), ("k2", "z", 2, 99.0, False), ("n1", "z", 3, 1.0, False))),
    ("insert", deletable_trips(("n2", "z", 3, 1.0, False), ("n3", "w", 3, 1.0, False))),
    ("delete", deletable_trips(("k4", "y", 0, None, False), ("zz", "y", 0, None, False))),
    ("upsert", deletable_trips(("k4", "y", 5, 5.0, False), ("k6", "x", 5, 6.0, False), ("n3", "w", 4, 1.0, True))),
]
EXPECTED = [
    ("k0", "x", 2, 10.0),
    ("k1", "y", 2, 11.0),
    ("k2", "z", 3, 12.0),
    ("k4", "y", 5, 5.0),
    ("k5", "z", 1, 5.0),
    ("k6", "x", 5, 6.0),
    ("k7", "y", 1, 7.0),
    ("k8", "z", 1, 8.0),
    ("n1", "z", 3, 1.0),
    ("n2", "z", 3, 1.0),
]
IN_BASE_FILES = [
    *((f"k{i}", "xyz"[i % 3], 1, float(i)) for i in (0, 1, 3, 4, 5, 6, 7, 8)),
    *(row for row in EXPECTED if row[0] in ("k2", "n1", "n2")),
    ("n3", "w", 3, 1.0),
]


def deltacommits(path: Path) -> list[dict[str, Any]]:
    files = sorted(file for file in (path / ".hoodie").iterdir() if file.name.endswith(".deltacommit"))
    return [json.loads(file.read_bytes()) for file in files]


def counts_of(commit: Mapping[str, Any]) -> list[Row]:
    """Return the write stat of each file, without names, sizes and times."""
    return sorted(
        (
            path,
            stat["prevCommit"] == "null",
            *(stat[name] for name in ("numWrites", "numUpdateWrites", "numInserts", "numDeletes")),
            *(stat.get(name) for name in ("logVersion", "logOffset")),
            bool(stat.get("baseFile")),
            len(stat.get("logFiles", ())),
            stat["totalWriteBytes"] == stat["fileSizeInBytes"],
            repr(stat.get("recordsStats")),
        )
        for path, stats in commit["partitionToWriteStats"].items()
        for stat in stats
    )


def log_records(path: Path) -> list[Row]:
    """Return the content of all log files, without what differs from run to run: file groups, times and sequence numbers."""
    found: list[Row] = []
    for file in path.rglob(".*.log.*"):
        if file.name.endswith(".crc"):
            continue
        content = file.read_bytes()
        for block in scan_blocks(content, file_name=file.name):
            if block.type is BlockType.DELETE:
                gone = read_deletes(content, block)
                values = {branch: array.to_pylist() for branch, array in gone.values.items()}
                found.append((file.parent.name, "delete", gone.keys.to_pylist(), gone.partitions.to_pylist(), values))
            else:
                rows = read_rows(content, block)
                assert rows["_hoodie_file_name"].to_pylist() == [file.name[1:].split("_")[0]] * rows.num_rows
                rest = rows.drop_columns(["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"])
                found.append((file.parent.name, block.type.name, json.loads(block.schema)["fields"], rest.to_pylist()))
    return sorted(found, key=repr)


@FORMATS
def test_the_same_history_leaves_the_same_counts_logs_and_rows(hudi015: Oracle, us: Penstock, tmp_path: Path, kind: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for operation, rows in HISTORY:
        options = {**TRIPS, **MOR, BLOCKS: kind, OPERATION: operation}
        us.write(ours, rows, options)
        hudi015.write(theirs, rows, options)
    for mine, other, (operation, _) in zip(deltacommits(ours), deltacommits(theirs), HISTORY, strict=True):
        assert counts_of(mine) == counts_of(other), operation
        assert mine["operationType"] == other["operationType"]
    assert log_records(ours) == log_records(theirs)
    assert hudi015.table_config(ours) == hudi015.table_config(theirs)
    assert trips_of(hudi015.read(ours)) == trips_of(hudi015.read(theirs)) == EXPECTED
    assert trips_of(hudi015.read(ours, OPTIMIZED)) == trips_of(hudi015.read(theirs, OPTIMIZED)) == sorted(IN_BASE_FILES)
    assert trips_of(hudi_rs_rows(ours)) == EXPECTED
    assert plain_rows(ours) == plain_rows(theirs) == sorted(EXPECTED, key=repr)


TYPES = pa.schema(
    {
        "id": pa.int64(),
        "part": pa.string(),
        "ts": pa.timestamp("us", "UTC"),
        "b": pa.bool_(),
        "i": pa.int32(),
        "f": pa.float32(),
        "d": pa.float64(),
        "dec": pa.decimal128(20, 4),
        "day": pa.date32(),
        "s": pa.string(),
        "bin": pa.binary(),
        "st": pa.struct({"x": pa.int32(), "y": pa.string()}),
        "li": pa.list_(pa.field("element", pa.int64())),
        "m": pa.map_(pa.string(), pa.float64()),
    }
)


def of_all_types(number: int, second: int) -> dict[str, Any]:
    empty = number % 3 == 2
    return {
        "id": number,
        "part": "p",
        "ts": datetime.datetime(2024, 1, 1, 0, 0, second, 5, tzinfo=datetime.timezone.utc),
        **{name: None for name in ("b", "i", "f", "d", "dec", "day", "s", "bin", "st", "li", "m") if empty},
        **(
            {}
            if empty
            else {
                "b": number % 2 == 0,
                "i": -number,
                "f": number / 4,
                "d": number / 3,
                "dec": Decimal(number * 1001) / 10000,
                "day": datetime.date(2024, 2, 1 + number),
                "s": f"schön {number} ✓",
                "bin": bytes([number, 255]),
                "st": {"x": second, "y": None},
                "li": [number, second],
                "m": [("k", float(number))],
            }
        ),
    }


@FORMATS
def test_hudi_reads_values_of_every_type_from_our_logs(hudi015: Oracle, us: Penstock, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "table"
    options = {NAME: "types", KEY: "id", PARTITION: "part", ORDERING: "ts", **MOR, BLOCKS: kind}
    before, after = ([of_all_types(n, second) for n in range(6)] for second in (1, 2))
    us.write(path, pa.Table.from_pylist(before, TYPES), {**options, OPERATION: "insert"})
    us.write(path, pa.Table.from_pylist(after[1:5], TYPES), {**options, OPERATION: "upsert"})
    us.write(path, pa.Table.from_pylist(after[3:4], TYPES), {**options, OPERATION: "delete"})
    expected = pa.Table.from_pylist([before[0], after[1], after[2], after[4], before[5]], TYPES)
    found = hudi015.read(path).select(TYPES.names).sort_by("id")
    assert _plain(found) == _plain(expected)
    assert _plain(hudi015.read(path, OPTIMIZED).select(TYPES.names).sort_by("id")) == _plain(pa.Table.from_pylist(before, TYPES))


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    return [
        {k: v.astimezone(datetime.timezone.utc) if isinstance(v, datetime.datetime) else v for k, v in row.items()}
        for row in rows
    ]


def test_deletes_by_ordering_values_of_other_types_are_understood(hudi015: Oracle, us: Penstock, tmp_path: Path) -> None:
    """Texts are left out: Hudi does not compare the class they have in a delete with the one they have in a row."""
    kinds: dict[str, tuple[Any, Sequence[Any]]] = {
        "int": (pa.int32(), (1, 2, 3)),
        "double": (pa.float64(), (1.0, 2.0, 3.0)),
        "moment": (
            pa.timestamp("us", "UTC"),
            tuple(datetime.datetime(2024, 1, d, tzinfo=datetime.timezone.utc) for d in (1, 2, 3)),
        ),
    }
    for name, (kind, (first, second, third)) in kinds.items():
        path = tmp_path / name
        schema = pa.schema({"id": pa.string(), "o": kind, "v": pa.int32(), "_hoodie_is_deleted": pa.bool_()})
        options = {NAME: name, KEY: "id", ORDERING: "o", **MOR, OPERATION: "upsert"}

        def rows(*of: Row, schema: pa.Schema = schema) -> pa.Table:
            return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in of], schema)

        us.write(path, rows(*((key, first, 0, False) for key in "abc")), options)
        us.write(path, rows(("a", third, 1, False), ("b", second, 1, False)), options)
        us.write(path, rows(("a", second, None, True), ("b", third, None, True), ("c", third, None, True)), options)
        assert hudi015.read(path).select(["id", "v"]).to_pylist() == [{"id": "a", "v": 1}], name


# --- rollback


def fail(runner: Runner, path: str) -> str:
    """Let a write of Penstock die when all its files exist. Return its instant."""
    with injected(FaultPlan(f"{path}-plan", match=PUBLISHING)), pytest.raises(Crash):
        runner.run(Step("upsert", CHANGES), f"crash:{path}")
    return max(name.split(".")[0] for name in timeline(path))


UPSERT = {**TRIPS, **MOR, OPERATION: "upsert", INDEX: "SIMPLE"}


def test_hudi_rolls_back_log_blocks_of_a_dead_write_of_ours(hudi015: Oracle, runner: Runner, table_path: str) -> None:
    runner.run(Step("insert", FIRST, options=MOR), table_path)
    failed = fail(runner, table_path)
    hudi015.write(table_path, trips(*LATER), UPSERT)
    rollback = next(name for name in timeline(table_path) if name.endswith(".rollback"))
    result = read_container(Path(table_path, ".hoodie", rollback).read_bytes())
    assert result["commitsRollback"] == [failed]
    assert plain_rows(table_path) == with_later(FIRST), "a rollback block later than the write behind it does not hide that one"
    runner.run(Step("upsert", CHANGES), table_path)
    assert trips_of(hudi015.read(table_path)) == plain_rows(table_path)


def test_hudi_goes_on_after_a_rollback_of_ours(hudi015: Oracle, runner: Runner, table_path: str) -> None:
    runner.run(Step("insert", FIRST, options=MOR), table_path)
    fail(runner, table_path)
    runner.run(Step("upsert", LATER), table_path)
    assert trips_of(hudi015.read(table_path)) == plain_rows(table_path) == with_later(FIRST)
    hudi015.write(table_path, trips(*CHANGES), UPSERT)
    assert trips_of(hudi015.read(table_path)) == plain_rows(table_path)


@pytest.mark.parametrize("by_markers", ["true", "false"], ids=["by markers", "by listing"])
def test_hudi_finishes_a_rollback_of_ours_that_died(hudi015: Oracle, runner: Runner, table_path: str, by_markers: str) -> None:
    runner.run(Step("insert", FIRST, options=MOR), table_path)
    failed = fail(runner, table_path)
    plan = FaultPlan(f"{table_path}-second", match=r"^write_new .*rollback\.inflight$")
    with injected(plan), pytest.raises(Crash):
        runner.run(Step("upsert", LATER, options={"hoodie.rollback.using.markers": by_markers}), f"crash:{table_path}")
    (ours,) = {name.split(".")[0] for name in timeline(table_path) if "rollback" in name}
    hudi015.write(table_path, trips(*LATER), UPSERT)
    result = read_container(Path(table_path, ".hoodie", f"{ours}.rollback").read_bytes())
    assert result["commitsRollback"] == [failed]
    assert trips_of(hudi015.read(table_path)) == plain_rows(table_path) == with_later(FIRST)


def test_we_roll_back_log_blocks_of_a_dead_write_of_hudi(hudi015: Oracle, runner: Runner, table_path: str) -> None:
    """Its completed file is taken away; markers are gone by then, so files are found by listing."""
    hudi015.write(table_path, trips(*FIRST), {**UPSERT, OPERATION: "insert"})
    hudi015.write(table_path, trips(*CHANGES), UPSERT)
    failed = max(name for name in timeline(table_path) if name.endswith(".deltacommit"))
    for name in (failed, f".{failed}.crc"):
        Path(table_path, ".hoodie", name).unlink(missing_ok=True)
    runner.run(Step("upsert", LATER, options={"hoodie.rollback.using.markers": "false"}), table_path)
    assert trips_of(hudi015.read(table_path)) == plain_rows(table_path) == with_later(FIRST)
    hudi015.write(table_path, trips(*CHANGES), UPSERT)
    assert trips_of(hudi015.read(table_path)) == plain_rows(table_path)

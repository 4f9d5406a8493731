"""insert: small files are filled, the other rows go to new file groups; old rows change nothing but their file name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.filegroup.names import parse_base_name
from penstock.formats.bloom import read_bloom
from tests.table.tables import (
    BULK,
    INSERT,
    OPERATION,
    SIX,
    base_files,
    commits,
    footer,
    load,
    snapshot,
    stats,
    timeline,
    trips,
    write,
)

LIMIT = "hoodie.parquet.small.file.limit"
ON_DRIVER = "penstock.small.batch.rows"


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("made") / "table")
    write(trips(spark, *SIX).coalesce(1), path)
    return path


def groups(path: str) -> dict[str, list[str]]:
    """Return the instants of each file group, by partition and file id."""
    found: dict[str, list[str]] = {}
    for file in sorted(base_files(path), key=lambda f: f.name.rsplit("_", 1)[1]):
        name = parse_base_name(file.name)
        assert name is not None
        found.setdefault(f"{file.parent.name}/{name.file_id}", []).append(name.instant)
    return found


@pytest.mark.parametrize("rows_on_driver", [10_000, 0], ids=["driver", "tasks"])
def test_new_rows_go_into_small_files(spark: Any, table: str, rows_on_driver: int) -> None:
    before = groups(table)
    old = {r["id"]: r for r in load(spark, table).collect()}
    new = [("g", "berlin", 7, 7.5), ("h", "berlin", 8, 8.5), ("i", "rome", 9, 9.5)]
    write(trips(spark, *new), table, {**INSERT, ON_DRIVER: rows_on_driver})
    first, second = (n.split(".")[0] for n in timeline(table) if n.endswith(".commit"))
    after = groups(table)
    grown = [g for g in before if g.startswith("berlin/")]
    assert {g: after[g] for g in before} == {g: [first, second] if g in grown else [first] for g in before}
    assert len([g for g in after if g.startswith("rome/")]) == 1

    rows = {r["id"]: r for r in load(spark, table).collect()}
    assert sorted(rows) == list("abcdefghi")
    for key, row in old.items():
        same = [c for c in row.asDict() if c != "_hoodie_file_name"]
        assert [rows[key][c] for c in same] == [row[c] for c in same]
        assert (rows[key]["_hoodie_file_name"] != row["_hoodie_file_name"]) == (row["city"] == "berlin")
    assert {rows[k]["_hoodie_commit_time"] for k in "ghi"} == {second}
    assert len({r["_hoodie_commit_seqno"] for r in rows.values()}) == 9
    names = {r["_hoodie_file_name"] for r in rows.values()}
    assert names <= {f.name for f in base_files(table)}


def test_a_filled_file_has_write_stats_and_a_footer_for_all_keys(spark: Any, table: str) -> None:
    write(trips(spark, ("0", "berlin", 7, 7.5), ("z", "berlin", 8, 8.5)), table, INSERT)
    (stat,) = stats(commits(table)[1])
    first = timeline(table)[0].split(".")[0]
    assert (stat["prevCommit"], stat["numWrites"], stat["numInserts"], stat["numUpdateWrites"]) == (first, 4, 2, 0)
    file = Path(table, stat["path"])
    assert stat["fileSizeInBytes"] == file.stat().st_size
    found = footer(file)
    assert (found["hoodie_min_record_key"], found["hoodie_max_record_key"]) == ("0", "z")
    bloom = read_bloom(found["org.apache.hudi.bloomfilter"], found["hoodie_bloom_filter_type_code"])
    keys = pq.read_table(file)["_hoodie_record_key"]
    assert sorted(keys.to_pylist()) == ["0", "a", "b", "z"]
    assert all(bloom.might_contain(keys))


def test_the_inflight_file_holds_the_planned_writes(spark: Any, table: str) -> None:
    write(trips(spark, ("g", "berlin", 7, 7.5), ("h", "rome", 8, 8.5)), table, INSERT)
    inflight = [n for n in timeline(table) if n.endswith(".inflight")][-1]
    profile = json.loads(Path(table, ".hoodie", inflight).read_bytes())
    assert {p: [(s["fileId"], s["numInserts"]) for s in its] for p, its in profile["partitionToWriteStats"].items()} == {
        "berlin": [("", 1)],
        "rome": [("", 1)],
    }
    assert profile["operationType"] == "INSERT"
    assert commits(table)[1]["operationType"] == "INSERT"


def test_a_limit_of_zero_opens_new_groups(spark: Any, table: str) -> None:
    before = groups(table)
    write(trips(spark, ("g", "berlin", 7, 7.5)), table, {**INSERT, LIMIT: 0})
    after = groups(table)
    assert len(after) == len(before) + 1
    assert all(after[g] == before[g] for g in before)


def test_a_file_without_room_is_not_filled(spark: Any, table: str) -> None:
    before = groups(table)
    write(trips(spark, ("g", "berlin", 7, 7.5)), table, {**INSERT, "hoodie.parquet.max.file.size": 1000})
    assert all(groups(table)[g] == before[g] for g in before)
    assert len(snapshot(spark, table)) == 7


def test_rows_are_split_into_file_groups_of_the_configured_size(spark: Any, table_path: str) -> None:
    split = {"hoodie.copyonwrite.insert.auto.split": "false", "hoodie.copyonwrite.insert.split.size": 2}
    rows = [(f"k{i}", "x", i, 0.5) for i in range(5)] + [("z", "y", 9, 0.5)]
    write(trips(spark, *rows), table_path, {**INSERT, **split})
    assert sorted(pq.read_metadata(f).num_rows for f in base_files(table_path) if f.parent.name == "x") == [1, 2, 2]
    assert sorted(pq.read_metadata(f).num_rows for f in base_files(table_path) if f.parent.name == "y") == [1]
    assert snapshot(spark, table_path) == rows


def test_a_small_file_takes_what_fits_and_the_rest_is_split(spark: Any, table: str) -> None:
    """Record size 1000, so the small file of berlin (some 10 kB at most) has room for a few rows below 20 kB."""
    sizes = {
        "hoodie.copyonwrite.record.size.estimate": 1000,
        "hoodie.record.size.estimation.threshold": 1000,
        "hoodie.parquet.max.file.size": 20_000,
        LIMIT: 19_000,
    }
    small = next(f for f in base_files(table) if f.parent.name == "berlin").stat().st_size
    assert small < 19_000
    fits = (20_000 - small) // 1000
    rows = [(f"k{i:02}", "berlin", i, 0.5) for i in range(fits + 25)]
    write(trips(spark, *rows), table, {**INSERT, **sizes})
    counts = [(s["prevCommit"] != "null", s["numInserts"]) for s in stats(commits(table)[1])]
    assert sorted(counts, reverse=True) == [(True, fits), (False, 20), (False, 5)]
    assert len(snapshot(spark, table)) == 6 + fits + 25


def test_inserting_a_known_key_adds_a_row(spark: Any, table: str) -> None:
    write(trips(spark, ("a", "berlin", 0, 0.0)), table, INSERT)
    assert [r for r in snapshot(spark, table) if r[0] == "a"] == [("a", "berlin", 0, 0.0), SIX[0]]


def test_known_keys_can_be_dropped(spark: Any, table: str) -> None:
    rows = [("a", "berlin", 9, 9.9), ("a", "paris", 9, 9.9), ("n", "berlin", 1, 0.1), ("n", "berlin", 2, 0.2)]
    write(trips(spark, *rows), table, {**INSERT, "hoodie.datasource.write.insert.drop.duplicates": "true"})
    assert snapshot(spark, table) == sorted([*SIX, rows[1], rows[3]])


def test_inserts_and_bulk_inserts_may_alternate(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX[:2]), table_path, INSERT)
    write(trips(spark, *SIX[2:4]), table_path, BULK)
    write(trips(spark, *SIX[4:]), table_path, {OPERATION: "insert"})
    assert snapshot(spark, table_path) == [*SIX]
    assert [c["operationType"] for c in commits(table_path)] == ["INSERT", "BULK_INSERT", "INSERT"]


def test_an_insert_of_no_rows_is_a_commit_without_files(spark: Any, table: str) -> None:
    files = base_files(table)
    write(trips(spark), table, INSERT)
    assert base_files(table) == files
    assert commits(table)[1]["partitionToWriteStats"] == {}
    assert snapshot(spark, table) == [*SIX]


def test_nothing_temporary_is_left(spark: Any, table: str) -> None:
    write(trips(spark, ("g", "berlin", 7, 7.5)), table, {**INSERT, ON_DRIVER: 0})
    assert list(Path(table, ".hoodie", ".temp").iterdir()) == []
    assert not list(Path(table).rglob("*.tmp"))
    assert not list(Path(table).rglob("*.arrow"))

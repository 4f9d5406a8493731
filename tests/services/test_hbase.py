"""The HBase index with a real HBase: lookups, entries after writes and services, and failures."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import clock
from penstock.errors import CorruptFile, OptionError, StorageError, Unsupported
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.clustering.service import CLUSTERING
from penstock.services.planned import schedule_and_run
from penstock.services.rollback.requested import roll_back_to
from penstock.table.state import open_table
from tests.contract.test_indexes import Kind, check_history
from tests.kit.counting import counted
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.hbase import MOVES, HBase
from tests.kit.servers import free_port
from tests.table.tables import OPERATION, SIX, TRIPS, Trip, base_files, snapshot, timeline, trips, values, write

TYPE = "hoodie.datasource.write.table.type"
MOR = {TYPE: "MERGE_ON_READ"}
SYNC = {"hoodie.index.hbase.rollback.sync": "true"}
#: Spark tasks for everything, however small.
SPREAD = {"penstock.small.batch.rows": "0"}
KINDS = pytest.mark.parametrize("kind", [{}, MOR], ids=["copy-on-write", "merge-on-read"])


class Trips:
    """A table of trips with an index of its own."""

    def __init__(self, spark: Any, hbase: HBase, path: str, **options: str) -> None:
        self.spark, self.hbase, self.path, self.index = spark, hbase, path, f"trips_{abs(hash(path))}"
        hbase.create(self.index)
        self.options = {**TRIPS, **hbase.our_options(self.index), **options}

    def write(self, operation: str, *rows: Trip, path: str | None = None, **more: str) -> None:
        write(trips(self.spark, *rows), path or self.path, {**self.options, OPERATION: operation, **more})

    def delete(self, *keys: tuple[str, str], **more: str) -> None:
        frame = values(self.spark, "id string, city string", *keys)
        write(frame, self.path, {**self.options, OPERATION: "delete", **more})

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return snapshot(self.spark, self.path)

    @property
    def entries(self) -> dict[str, tuple[str, str]]:
        """Commit and partition path of each entry, by key."""
        return {key: (e["commit_ts"], e["partition_path"]) for key, e in self.hbase.entries(self.index).items()}

    @property
    def groups(self) -> dict[str, str]:
        """File id of each key, by the table's own rows."""
        found = self.spark.read.format("hudi").load(self.path).collect()
        names = {row["_hoodie_record_key"]: row["_hoodie_file_name"] for row in found}
        return {key: name.split("_")[0] for key, name in names.items()}

    def check(self) -> None:
        """Check that every row has an entry with its file group and partition, and that no other key has one."""
        entries = self.hbase.entries(self.index)
        assert {key: e["file_name"] for key, e in entries.items()} == self.groups
        assert {key: e["partition_path"] for key, e in entries.items()} == {row[0]: row[1] for row in self.rows}

    @property
    def last(self) -> str:
        return max(name.split(".")[0] for name in timeline(self.path))


@KINDS
def test_the_contract_history_leaves_the_same_rows_as_a_dictionary(
    spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]
) -> None:
    """The contract of every index; here, because here is the server."""
    t = Trips(spark, hbase, table_path, **kind, **MOVES)
    check_history(spark, table_path, Kind("HBASE", is_global=True, options=t.options), kind.get(TYPE, "COPY_ON_WRITE"))
    t.check()


@KINDS
def test_after_every_write_each_row_has_its_entry(spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]) -> None:
    t = Trips(spark, hbase, table_path, **kind, **MOVES)
    t.write("insert", *SIX)
    first = t.last
    cells = hbase.entries(t.index)["a"]
    assert cells == {"commit_ts": first, "file_name": t.groups["a"], "partition_path": "berlin"}
    t.check()
    t.write("upsert", ("a", "berlin", 9, 9.0), ("g", "oslo", 9, 9.0), ("a", "berlin", 8, 8.0))
    assert t.entries["a"] == (first, "berlin"), "an update leaves the entry as it is"
    assert t.entries["g"] == (t.last, "oslo")
    t.check()
    t.write("upsert", ("b", "paris", 9, 9.5), ("c", "oslo", 1, 0.5))
    assert t.rows == sorted(
        [
            ("a", "berlin", 9, 9.0),
            ("b", "paris", 9, 9.5),
            ("c", "oslo", 1, 0.5),  # it moves as it comes, though it is older
            ("d", "paris", 4, 4.5),
            ("e", "tokyo", 5, 5.5),
            ("f", "tokyo", 6, 6.5),
            ("g", "oslo", 9, 9.0),
        ]
    )
    assert t.entries["b"] == (t.last, "paris")
    t.delete(("b", "elsewhere"), ("e", "tokyo"), ("nobody", "tokyo"))
    assert [row[0] for row in t.rows] == ["a", "c", "d", "f", "g"]
    assert sorted(t.entries) == ["a", "c", "d", "f", "g"]
    t.write("upsert", ("b", "rome", 1, 1.0))
    t.check()
    assert ("b", "rome", 1, 1.0) in t.rows
    t.write("bulk_insert", ("x", "rome", 1, 1.0), ("y", "oslo", 1, 1.0))
    t.check()
    t.write("insert", ("y", "oslo", 7, 7.0), ("z", "oslo", 7, 7.0), **{"hoodie.datasource.write.insert.drop.duplicates": "true"})
    assert ("y", "oslo", 1, 1.0) in t.rows
    t.check()


@KINDS
def test_without_moves_a_row_is_updated_in_its_old_partition(
    spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]
) -> None:
    t = Trips(spark, hbase, table_path, **kind)
    t.write("upsert", *SIX[:3])
    made = t.last
    t.write("upsert", ("a", "paris", 9, 9.0))
    found = {row["id"]: row["_hoodie_partition_path"] for row in spark.read.format("hudi").load(table_path).collect()}
    assert found == {"a": "berlin", "b": "berlin", "c": "paris"}
    assert t.entries["a"] == (made, "berlin")


PAYLOAD = "hoodie.datasource.write.payload.class"
#: Payload, kind of table, and the rows with their partitions after each of two batches.
MADE: list[tuple[str, dict[str, str], list[list[Any]]]] = [
    (
        "PartialUpdateAvroPayload",
        {},
        [
            [("a", "y", 6, 1.0), ("b", "y", 5, 2.0), ("d", "x", 6, 4.0), ("n", "x", 6, None)],
            [("a", "x", 7, 1.0), ("b", "x", 7, 2.0), ("d", "y", 7, 4.0), ("n", "y", 7, 1.5)],
        ],
    ),
    (
        "penstock.aggregate",
        MOR,
        [
            [("a", "y", 6, 1.0), ("b", "x", 5, 2.0), ("d", "x", 6, 4.0), ("n", "x", 6, None)],
            [("a", "x", 7, 1.0), ("b", "x", 7, 2.0), ("d", "y", 7, 4.0), ("n", "y", 7, 1.5)],
        ],
    ),
    (
        "penstock.first_row",
        {},
        [
            [("a", "x", 5, 1.0), ("b", "x", 5, 2.0), ("d", "y", 5, None), ("n", "x", 6, None)],
            [("a", "x", 5, 1.0), ("b", "x", 5, 2.0), ("d", "y", 5, None), ("n", "x", 6, None)],
        ],
    ),
]


@pytest.mark.parametrize(("name", "kind", "after"), MADE, ids=[name for name, _, _ in MADE])
def test_a_row_that_moves_is_merged_by_the_payload(
    spark: Any, hbase: HBase, table_path: str, name: str, kind: dict[str, str], after: list[list[Any]]
) -> None:
    """A late row, a delete that comes for another partition, a row that is new, and then in a log alone, and moves."""
    t = Trips(spark, hbase, table_path, **kind, **MOVES, **{"penstock.payload.aggregate": "fare:sum,city:last"})
    t.options |= {PAYLOAD: name if "." in name else f"org.apache.hudi.common.model.{name}", "hoodie.compact.inline": "false"}
    columns = "id string, city string, ts bigint, fare double, _hoodie_is_deleted boolean"
    batches: list[list[tuple[Any, ...]]] = [
        [("a", "x", 5, 1.0, False), ("b", "x", 5, 2.0, False), ("c", "y", 5, 3.0, False), ("d", "y", 5, None, False)],
        [("a", "y", 6, None, False), ("b", "y", 4, None, False), ("c", "x", 6, None, True), ("d", "x", 6, 4.0, False)],
        [("a", "x", 7, None, False), ("b", "x", 7, None, False), ("d", "y", 7, None, False), ("n", "y", 7, 1.5, False)],
    ]
    batches[1].append(("n", "x", 6, None, False))
    for number, batch in enumerate(batches):
        operation = "upsert" if number else "bulk_insert"
        write(values(spark, columns, *batch), table_path, {**t.options, OPERATION: operation, **(SPREAD if number == 2 else {})})
        if number:
            found = spark.read.format("hudi").load(table_path).select("id", "_hoodie_partition_path", "ts", "fare")
            assert sorted(map(tuple, found.collect())) == after[number - 1]
    entries = t.entries
    assert {row[0]: entries[row[0]][1] for row in after[1]} == {row[0]: row[1] for row in after[1]}


def test_new_rows_of_a_merge_on_read_table_go_to_logs_and_are_found_there(spark: Any, hbase: HBase, table_path: str) -> None:
    t = Trips(spark, hbase, table_path, **MOR, **{"hoodie.compact.inline": "false"})
    t.write("insert", *SIX)
    assert base_files(table_path) == []
    t.write("upsert", ("a", "berlin", 9, 9.0), ("h", "berlin", 9, 9.0))
    assert base_files(table_path) == []
    assert {("a", "berlin", 9, 9.0), ("h", "berlin", 9, 9.0)} <= set(t.rows)
    assert len(t.rows) == 7
    t.write("upsert", ("a", "berlin", 10, 10.0), ("i", "berlin", 1, 1.0))
    penstock.Table.open(table_path, spark).compact()
    assert len(base_files(table_path)) == 3
    t.write("upsert", ("a", "berlin", 11, 11.0))
    assert ("a", "berlin", 11, 11.0) in t.rows
    assert len(t.rows) == 8
    assert {e["file_name"] for e in hbase.entries(t.index).values()} == {f.name.split("_")[0] for f in base_files(table_path)}


def test_tagging_a_thousand_keys_opens_no_base_file(spark: Any, hbase: HBase, table_path: str, tmp_path: Path) -> None:
    fast = {"hoodie.index.hbase.put.batch.size": "1000"}
    t = Trips(spark, hbase, table_path, **MOR, **fast)
    frame = spark.range(1000).selectExpr("concat('k', id) as id", "concat('c', id % 4) as city", "id as ts", "1.5d as fare")
    write(frame, table_path, {**t.options, OPERATION: "bulk_insert"})
    assert len(hbase.entries(t.index)) == 1000
    assert len(base_files(table_path)) >= 4
    with counted(spark, tmp_path / "counts") as account:
        later = frame.selectExpr("id", "city", "ts + 1 as ts", "2.5d as fare")
        write(later, f"count:{table_path}", {**t.options, OPERATION: "upsert", "hoodie.compact.inline": "false"})
    assert account.counts.opened == 0
    assert account.counts.written == 0
    assert {row[3] for row in t.rows} == {2.5}
    assert len(t.rows) == 1000
    plan = penstock.Table.open(table_path, spark).plan_upsert(frame, {**t.options})
    assert (plan.files_opened, plan.rows_incoming, sum(g.rows_changed for g in plan.groups)) == (0, 1000, 1000)


def test_size_and_rate_of_requests_follow_the_options(
    spark: Any, hbase: HBase, table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    happybase = pytest.importorskip("happybase")
    asked: list[int] = []
    sent: list[int] = []
    slept: list[float] = []

    def noting(module: Any, name: str, note: Callable[..., None]) -> None:
        does = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **named: (note(*given), does(*given, **named))[1])

    noting(happybase.Table, "rows", lambda _, keys: asked.append(len(keys)))
    noting(happybase.Batch, "send", lambda batch: sent.append(len(batch._mutations)))
    noting(clock, "sleep_s", slept.append)
    t = Trips(spark, hbase, table_path)
    t.write("insert", *SIX[:1])
    few = {"hoodie.index.hbase.get.batch.size": "3", "hoodie.index.hbase.put.batch.size": "2"}
    for one in (asked, sent, slept):
        one.clear()
    t.write("upsert", *((f"n{n}", "berlin", 1, 1.0) for n in range(7)), **few)
    assert asked == [3, 3, 1]
    assert (max(sent), sum(sent)) == (2, 7)
    assert 2 < sum(slept) <= 2.5, "two entries pass in a second: seven take two and a half after the first two"
    t.check()


@KINDS
def test_executors_read_and_write_entries_in_parallel(
    spark: Any, hbase: HBase, table_path: str, kind: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.write.locate.entries._KEYS_PER_TASK", 25)
    auto = {"hoodie.index.hbase.put.batch.size.autocompute": "true", "hoodie.index.hbase.qps.fraction": "0.9"}
    t = Trips(spark, hbase, table_path, **kind, **MOVES, **SPREAD, **auto, **{"hoodie.index.hbase.get.batch.size": "10"})
    frame = spark.range(90).selectExpr("concat('k', id) as id", "concat('c', id % 3) as city", "id as ts", "1.5d as fare")
    write(frame, table_path, {**t.options, OPERATION: "upsert"})
    moved = spark.range(60, 120).selectExpr("concat('k', id) as id", "concat('c', id % 2) as city", "id as ts", "2.5d as fare")
    write(moved, table_path, {**t.options, OPERATION: "upsert"})
    expected = {f"k{i}": (f"c{i % 3}", 1.5) for i in range(60)} | {f"k{i}": (f"c{i % 2}", 2.5) for i in range(60, 120)}
    assert {row[0]: (row[1], row[3]) for row in t.rows} == expected
    assert len(t.rows) == 120
    t.check()


@KINDS
def test_entries_of_a_dead_write_are_ignored(spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]) -> None:
    t = Trips(spark, hbase, table_path, **kind, **MOVES)
    t.write("insert", *SIX)
    first = t.entries
    plan = FaultPlan(f"{table_path}-plan", fault=Fault.BEFORE, match=r"\.(delta)?commit$")
    with injected(plan), pytest.raises(Crash):
        t.write("upsert", ("a", "paris", 9, 9.0), ("g", "oslo", 9, 9.0), ("b", "berlin", 9, 9.0), path=f"crash:{table_path}")
    left = t.entries
    assert left["a"][1] == "paris", "entries are put before the commit is published"
    assert left["g"][1] == "oslo"
    t.write("upsert", ("a", "rome", 10, 10.0), ("g", "rome", 10, 10.0))
    wanted = sorted([("a", "rome", 10, 10.0), ("g", "rome", 10, 10.0), *SIX[1:]])
    assert t.rows == wanted, "a is found where it was before the write that died; g is new"
    t.check()
    assert {key: t.entries[key] for key in "bcdef"} == {key: first[key] for key in "bcdef"}


@KINDS
def test_rollback_sync_removes_new_entries_and_restores_deleted_ones(
    spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]
) -> None:
    t = Trips(spark, hbase, table_path, **kind, **MOVES, **SYNC, **{"hoodie.compact.inline": "false"})
    t.write("insert", *SIX)
    before = t.entries
    t.write("upsert", ("a", "paris", 9, 9.0), ("g", "berlin", 9, 9.0))
    assert t.entries["a"] == (t.last, "paris")
    roll_back_to(open_table(table_path, read_options(t.options)), t.last)
    assert t.rows == sorted(SIX)
    assert t.entries == before
    t.check()
    t.delete(("b", "berlin"), ("e", "tokyo"))
    assert sorted(t.entries) == ["a", "c", "d", "f"]
    roll_back_to(open_table(table_path, read_options(t.options)), t.last)
    assert t.rows == sorted(SIX)
    t.check()
    t.write("upsert", ("b", "berlin", 9, 9.0))
    assert len(t.rows) == 6


@KINDS
def test_a_restore_restores_the_entries_of_restored_rows(spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]) -> None:
    t = Trips(spark, hbase, table_path, **kind, **MOVES, **SYNC, **{"hoodie.compact.inline": "false"})
    t.write("insert", *SIX)
    table = penstock.Table.open(table_path, spark, options=t.options)
    saved = table.savepoint()
    t.write("upsert", ("a", "paris", 9, 9.0), ("g", "oslo", 9, 9.0))
    t.write("upsert", ("a", "rome", 10, 10.0))
    t.delete(("b", "berlin"), ("g", "oslo"))
    table.restore(saved)
    t.check()
    t.write("upsert", ("a", "berlin", 11, 1.5), ("b", "berlin", 11, 2.5))
    assert t.rows == sorted([("a", "berlin", 11, 1.5), ("b", "berlin", 11, 2.5), *SIX[2:]])
    t.check()


def test_without_rollback_sync_entries_of_a_rolled_back_commit_are_ignored(spark: Any, hbase: HBase, table_path: str) -> None:
    t = Trips(spark, hbase, table_path)
    t.write("insert", *SIX[:2])
    t.write("upsert", *SIX[2:4])
    undone = t.last
    roll_back_to(open_table(table_path, read_options(t.options)), undone)
    assert t.entries["c"][0] == undone
    t.write("upsert", ("c", "paris", 1, 1.0))
    assert t.rows == [SIX[0], SIX[1], ("c", "paris", 1, 1.0)]
    assert t.entries["c"][0] == t.last > undone


def test_entries_that_point_to_no_file_group_are_ignored(spark: Any, hbase: HBase, table_path: str) -> None:
    """Of a file group that is gone, or of one where the row is not: the key is new there."""
    t = Trips(spark, hbase, table_path)
    t.write("insert", *SIX[:3])
    entry = hbase.entries(t.index)
    hbase.put(t.index, "x", {**entry["a"], "file_name": "00000000-0000-0000-0000-000000000000-0"})
    hbase.put(t.index, "y", entry["a"])
    hbase.put(t.index, "old", {**entry["a"], "commit_ts": "20200101000000000"})
    t.delete(("old", "berlin"))
    t.write("upsert", ("x", "rome", 1, 1.0), ("y", "berlin", 1, 1.0))
    assert t.rows == sorted([*SIX[:3], ("x", "rome", 1, 1.0), ("y", "berlin", 1, 1.0)])
    t.check()
    hbase.put(t.index, "z", {"commit_ts": "1"})
    with pytest.raises(CorruptFile, match=r"b'z'.*no entry of an index: it has _s:commit_ts"):
        t.write("upsert", ("z", "rome", 1, 1.0))
    assert len(t.rows) == 5


def test_a_delete_with_an_older_ordering_value_keeps_the_entry(spark: Any, hbase: HBase, table_path: str) -> None:
    payload = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
    columns = "id string, city string, ts bigint, fare double, _hoodie_is_deleted boolean"
    for number, kind in enumerate(({}, MOR)):
        t = Trips(spark, hbase, f"{table_path}-{number}", **kind, **payload)
        write(
            values(spark, columns, ("a", "x", 5, 1.0, False), ("b", "x", 5, 1.0, False)),
            t.path,
            {**t.options, OPERATION: "upsert"},
        )
        late = values(spark, columns, ("a", "x", 1, 1.0, True), ("b", "x", 9, 1.0, True))
        write(late, t.path, {**t.options, OPERATION: "upsert"})
        assert [row[0] for row in t.rows] == ["a"]
        assert "a" in t.entries
        assert ("b" in t.entries) == bool(kind), (
            "of a log it is not known yet which deletes apply; an entry too many does no harm"
        )


@KINDS
def test_an_index_without_entries_is_refused_where_the_table_has_rows(
    spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]
) -> None:
    t = Trips(spark, hbase, table_path, **kind)
    t.write("insert", *SIX[:2], **{"hoodie.index.type": "SIMPLE"})
    before = timeline(table_path)
    with pytest.raises(OptionError, match="finds no entry in HBase's table .* has rows, which would be written twice"):
        t.write("upsert", *SIX[:2])
    assert timeline(table_path) == before
    t.delete(("a", "berlin"), ("b", "berlin"), **{"hoodie.index.type": "SIMPLE"})
    t.write("upsert", *SIX[:2])
    assert t.rows == list(SIX[:2])
    t.check()


@KINDS
def test_rows_written_by_another_index_are_not_written_twice(
    spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]
) -> None:
    t = Trips(spark, hbase, table_path, **kind, **{"hoodie.compact.inline": "false"})
    everywhere, simple = {"hoodie.index.type": "GLOBAL_SIMPLE"}, {"hoodie.index.type": "SIMPLE"}
    t.write("bulk_insert", *SIX[:2])
    t.write("upsert", ("c", "berlin", 1, 1.0))
    if kind:  # c is in a log alone
        with pytest.raises(
            OptionError, match=r"has rows in log files alone.*=SIMPLE does not find them.*Compact the table first"
        ):
            t.write("upsert", ("c", "berlin", 2, 2.0), **simple)
        penstock.Table.open(table_path, spark).compact()
    t.write("upsert", ("c", "berlin", 2, 2.0), **simple)
    t.write("upsert", ("a", "berlin", 9, 9.0))
    t.write("insert", ("n", "oslo", 1, 1.0), **simple)
    before = timeline(table_path)
    with pytest.raises(
        OptionError, match=r"has no entries of rows that write \d+ of .* added or moved with hoodie.index.type=SIMPLE"
    ):
        t.write("upsert", ("n", "oslo", 2, 2.0))
    assert timeline(table_path) == before
    t.write("upsert", ("n", "oslo", 2, 2.0), **everywhere)
    assert t.rows == [("a", "berlin", 9, 9.0), SIX[1], ("c", "berlin", 2, 2.0), ("n", "oslo", 2, 2.0)]


def test_a_clustering_updates_the_index_and_rows_moved_without_an_update_are_not_written_twice(
    spark: Any, hbase: HBase, table_path: str
) -> None:
    t = Trips(spark, hbase, table_path)
    t.write("insert", *SIX[:2])
    table = penstock.Table.open(table_path, spark)
    table.cluster(options=t.options)
    t.write("upsert", ("a", "berlin", 5, 5.0))
    assert t.rows == [("a", "berlin", 5, 5.0), SIX[1]]
    table.cluster()
    before = timeline(table_path)
    with pytest.raises(OptionError, match="has moved without telling the index"):
        t.write("upsert", ("a", "berlin", 9, 9.0))
    assert timeline(table_path) == before
    t.write("upsert", ("a", "berlin", 9, 9.0), **{"hoodie.index.type": "GLOBAL_SIMPLE"})
    assert t.rows == [("a", "berlin", 9, 9.0), SIX[1]]


def test_a_problem_of_hbase_is_an_error_and_nothing_is_written(spark: Any, hbase: HBase, table_path: str) -> None:
    t = Trips(spark, hbase, table_path)
    t.write("insert", *SIX[:2])
    before = timeline(table_path)
    hbase.create(f"{t.index}_other", "other")
    impatient = {"hoodie.index.hbase.zk.connection_timeout_ms": "500", "hoodie.index.hbase.zk.session_timeout_ms": "1500"}
    wrong = [
        (OptionError, "HBase has no table nowhere.*create 'nowhere', '_s'", {"hoodie.index.hbase.table": "nowhere"}),
        (OptionError, "has no family _s but other", {"hoodie.index.hbase.table": f"{t.index}_other"}),
        (OptionError, "needs hoodie.index.hbase.table", {"hoodie.index.hbase.table": ""}),
        (StorageError, "cannot be reached.*is the gateway running", {"penstock.hbase.thrift.port": str(free_port())}),
        (
            StorageError,
            "(?s)first host of hoodie.index.hbase.zkquorum",
            {"penstock.hbase.thrift.host": "", "hoodie.index.hbase.zkquorum": "nobody.invalid:2181,127.0.0.1"},
        ),
        (Unsupported, "let HBase.s Thrift gateway log in", {"hoodie.index.hbase.security.authentication": "kerberos"}),
    ]
    for kind, text, options in wrong:
        with pytest.raises(kind, match=f"(?i){text}"):
            t.write("upsert", ("a", "berlin", 9, 9.0), ("n", "berlin", 9, 9.0), **impatient, **options)
    hbase.master.pause()
    try:
        with pytest.raises(StorageError, match="did not answer in time.*session_timeout_ms=1500"):
            t.write("upsert", ("a", "berlin", 9, 9.0), **impatient)
    finally:
        hbase.master.resume()
    assert timeline(table_path) == before
    assert t.rows == list(SIX[:2])


def test_an_index_that_fails_in_the_middle_leaves_nothing_committed(
    spark: Any, hbase: HBase, table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = Trips(spark, hbase, table_path)
    t.write("insert", *SIX[:2])
    before, files = timeline(table_path), base_files(table_path)

    def drop_table(*_: Any) -> int:
        raise StorageError("HBase went away")

    monkeypatch.setattr("penstock.index.entry_index.put_entries", drop_table)
    with pytest.raises(StorageError, match="went away"):
        t.write("upsert", ("a", "berlin", 9, 9.0), ("n", "berlin", 9, 9.0))
    assert (timeline(table_path), base_files(table_path)) == (before, files)
    monkeypatch.undo()
    monkeypatch.setattr("penstock.index.entry_index.remove_entries", drop_table)
    with pytest.warns(RuntimeWarning, match="the write is done, but entries of keys that it deleted stay"):
        t.delete(("a", "berlin"))
    assert [row[0] for row in t.rows] == ["b"]
    monkeypatch.undo()
    t.write("upsert", ("a", "berlin", 9, 9.0))
    assert [row[0] for row in t.rows] == ["a", "b"]
    t.check()


def test_a_missing_client_names_the_extra(spark: Any, hbase: HBase, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    t = Trips(spark, hbase, table_path)
    monkeypatch.setitem(sys.modules, "happybase", None)
    with warnings.catch_warnings(), pytest.raises(OptionError, match=r"pip install 'penstock\[hbase\]'"):
        t.write("insert", *SIX)
    assert not Path(table_path).exists()


@KINDS
def test_rows_moved_by_a_clustering_are_found_in_their_new_file_groups(
    spark: Any, hbase: HBase, table_path: str, kind: dict[str, str]
) -> None:
    t = Trips(spark, hbase, table_path, **kind)
    t.write("insert", *SIX)
    t.write(
        "upsert", ("a", "berlin", 9, 9.0), **{"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    )
    assert {commit for commit, _ in t.entries.values()} == {t.last}, "every row is in a new file group"
    t.check()
    t.write("upsert", *((key, city, 10, 10.0) for key, city, *_ in SIX))
    assert t.rows == [(key, city, 10, 10.0) for key, city, *_ in SIX]
    t.check()
    found, dies = t.entries, FaultPlan(f"{table_path}-plan", fault=Fault.BEFORE, match=r"\.replacecommit$")
    with injected(dies), pytest.raises(Crash):
        schedule_and_run(
            spark, open_table(f"crash:{table_path}", read_options(t.options)), CLUSTERING, Stages("", "off"), due=True
        )
    assert t.entries != found, "entries are put before the commit is published"
    table = penstock.Table.open(table_path, spark, options=t.options)
    table.unschedule_clustering(table.pending_clusterings()[0].instant)
    t.write("upsert", *((key, city, 11, 11.0) for key, city, *_ in SIX))
    assert t.rows == [(key, city, 11, 11.0) for key, city, *_ in SIX], "they are found where they were before"
    table.cluster()
    t.check()

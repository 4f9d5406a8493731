"""Writes to merge-on-read tables: the files of a write, the timeline, and the content of logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import OptionError, SchemaError, Unsupported
from penstock.formats.log import BlockType, read_deletes, read_rows, scan_blocks
from tests.kit.plain import plain_rows
from tests.kit.readers import hudi_rs_rows
from tests.kit.templates import Templates
from tests.table.tables import OPERATION, SIX, TRIPS, Trip, base_files, commits, properties, stats, timeline, trips, values, write
from tests.table.upserts import DEFAULT_PAYLOAD, EMPTY_PAYLOAD, IN_TASKS, INDEX, MANY_GROUPS, MOVES, ON_DRIVER, PAYLOAD, rows

MOR = {**TRIPS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
UPSERT = {**MOR, OPERATION: "upsert"}
DELETE = {**MOR, OPERATION: "delete"}
INSERT = {**MOR, OPERATION: "insert"}
BLOCKS = "hoodie.logfile.data.block.format"
LAST_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
BOTH = pytest.mark.parametrize("where", [ON_DRIVER, IN_TASKS], ids=["driver", "tasks"])


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six trips in three cities. Read only: copy it to write to it."""
    path = str(tmp_path_factory.mktemp("made") / "table")
    write(trips(spark, *SIX), path, INSERT)
    return path


@pytest.fixture
def flagged(spark: Any, table_path: str, templates: Templates) -> str:
    """The same table with a column that marks deletes."""
    six = [(*trip, False) for trip in SIX]
    return templates.copy("six-with-a-flag", lambda path: write(rows(spark, *six), path, INSERT), table_path)


def log_files(path: str) -> list[Path]:
    """Return all log files, in the order of their names."""
    return sorted(p for p in Path(path).rglob(".*.log.*") if ".hoodie" not in p.parts and not p.name.endswith(".crc"))


def records(file: Path) -> list[tuple[str, Any]]:
    """Return the content of a log file: the kind of each block with (id, ts, fare) of rows or (key, ordering value) of deletes."""
    content, found = file.read_bytes(), []
    for block in scan_blocks(content):
        if block.type is BlockType.DELETE:
            entries = read_deletes(content, block)
            ordering = entries.values.get(3)
            values = ordering.to_pylist() if ordering is not None else [None] * len(entries)
            found.append((block.type.name, list(zip(entries.keys.to_pylist(), values, strict=True))))
        elif block.is_rollback:
            found.append((block.type.name, block.target_instant))
        else:
            its = read_rows(content, block, columns=["id", "ts", "fare"]).to_pylist()
            found.append((block.type.name, [(r["id"], r["ts"], r["fare"]) for r in its]))
    return found


def counts(commit: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return (partition, whether it is a log, numWrites, numUpdateWrites, numDeletes, numInserts) of each file, sorted."""
    names = ("numWrites", "numUpdateWrites", "numDeletes", "numInserts")
    return sorted((s["partitionPath"], "logVersion" in s, *(s[n] for n in names)) for s in stats(commit))


def seen(path: str) -> list[Trip]:
    """Return trips as Penstock and hudi-rs read them, base files and logs together."""
    found = hudi_rs_rows(path).select(["id", "city", "ts", "fare"]).to_pylist()
    trips = sorted((r["id"], r["city"], r["ts"], r["fare"]) for r in found)
    assert plain_rows(path) == sorted(trips, key=repr)
    return trips


def test_a_new_merge_on_read_table_has_hudis_properties_and_timeline(table: str) -> None:
    found = properties(table)
    assert found["hoodie.table.type"] == "MERGE_ON_READ"
    assert found["hoodie.compaction.payload.class"].endswith(".OverwriteWithLatestAvroPayload")
    assert found["hoodie.compaction.record.merger.strategy"] == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    (time,) = {name.split(".")[0] for name in timeline(table)}
    assert timeline(table) == [f"{time}.deltacommit", f"{time}.deltacommit.inflight", f"{time}.deltacommit.requested"]


@pytest.mark.parametrize("operation", ["bulk_insert", "insert", "upsert"])
def test_new_rows_go_to_base_files(spark: Any, table_path: str, operation: str) -> None:
    write(trips(spark, *SIX).coalesce(1), table_path, {**MOR, OPERATION: operation})
    assert counts(commits(table_path)[0]) == [(city, False, 2, 0, 0, 2) for city in ("berlin", "paris", "tokyo")]
    assert (len(base_files(table_path)), log_files(table_path)) == (3, [])
    assert seen(table_path) == [*SIX]


@BOTH
@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_an_upsert_appends_to_logs_and_leaves_base_files_alone(spark: Any, flagged: str, where: Any, kind: str) -> None:
    before = {file: file.read_bytes() for file in base_files(flagged)}
    batch = rows(spark, ("a", "berlin", 9, 9.5, False), ("a", "berlin", 8, 8.5, False), ("b", "berlin", 9, None, True))
    write(batch, flagged, {**UPSERT, **where, BLOCKS: kind})
    assert {file: file.read_bytes() for file in base_files(flagged)} == before
    (log,) = log_files(flagged)
    assert records(log) == [(f"{kind.upper()}_DATA", [("a", 9, 9.5)]), ("DELETE", [("b", 9)])]
    commit = commits(flagged)[-1]
    assert counts(commit) == [("berlin", True, 1, 1, 1, 0)]
    (stat,) = stats(commit)
    (base,) = [file for file in before if file.parent.name == "berlin"]
    assert (stat["path"], stat["baseFile"], stat["logFiles"]) == (f"berlin/{log.name}", base.name, [log.name])
    assert (stat["logVersion"], stat["logOffset"], stat["recordsStats"]) == (1, 0, {"val": None})
    assert stat["totalWriteBytes"] == stat["fileSizeInBytes"] == log.stat().st_size
    assert stat["prevCommit"] == base.name.removesuffix(".parquet").rsplit("_", 1)[1]
    assert seen(flagged) == [("a", "berlin", 9, 9.5), *SIX[2:]]


@BOTH
def test_a_delete_appends_keys_that_are_deleted_whatever_their_ordering_value(spark: Any, table: str, where: Any) -> None:
    keys = values(spark, "id string, city string", ("a", "berlin"), ("e", "tokyo"), ("no", "tokyo"), ("no", "rome"))
    write(keys, table, {**DELETE, **where})
    assert [records(log) for log in log_files(table)] == [[("DELETE", [("a", None)])], [("DELETE", [("e", None)])]]
    commit = commits(table)[-1]
    assert (counts(commit), commit["operationType"]) == ([("berlin", True, 0, 0, 1, 0), ("tokyo", True, 0, 0, 1, 0)], "DELETE")
    assert seen(table) == [SIX[1], SIX[2], SIX[3], SIX[5]]
    assert not Path(table, "rome").exists()


def test_the_empty_payload_deletes_whatever_the_ordering(spark: Any, table: str) -> None:
    write(trips(spark, ("a", "berlin", 0, 0.0)), table, {**UPSERT, PAYLOAD: EMPTY_PAYLOAD})
    (log,) = log_files(table)
    assert records(log) == [("DELETE", [("a", None)])]


def test_each_write_creates_the_next_log_version(spark: Any, table: str) -> None:
    for ts in (10, 11, 12):
        write(trips(spark, ("a", "berlin", ts, float(ts))), table, UPSERT)
    logs = log_files(table)
    assert [log.name.split(".log.")[1].split("_")[0] for log in logs] == ["1", "2", "3"]
    assert [s["logFiles"] for s in stats(commits(table)[-1])] == [[log.name for log in logs]]
    assert seen(table)[0] == ("a", "berlin", 12, 12.0)


def test_new_rows_fill_a_small_file_that_has_no_log_and_none_that_has_one(spark: Any, table: str) -> None:
    write(trips(spark, ("a", "berlin", 9, 9.5)), table, UPSERT)
    write(trips(spark, ("n", "berlin", 9, 1.0), ("m", "paris", 9, 2.0), ("c", "paris", 9, 3.0)), table, UPSERT)
    assert counts(commits(table)[-1]) == [("berlin", False, 1, 0, 0, 1), ("paris", False, 3, 1, 0, 1)]
    write(trips(spark, ("o", "tokyo", 9, 4.0), ("p", "berlin", 9, 5.0)), table, INSERT)
    assert counts(commits(table)[-1]) == [("berlin", False, 2, 0, 0, 1), ("tokyo", False, 3, 0, 0, 1)]
    changed = [("a", "berlin", 9, 9.5), SIX[1], ("c", "paris", 9, 3.0), *SIX[3:], ("m", "paris", 9, 2.0), ("n", "berlin", 9, 1.0)]
    assert seen(table) == sorted([*changed, ("o", "tokyo", 9, 4.0), ("p", "berlin", 9, 5.0)])


@BOTH
def test_rows_of_several_groups_are_found_and_appended_to_each(spark: Any, table_path: str, where: Any) -> None:
    many = {**MANY_GROUPS, **where}
    ten = [(f"k{i}", "berlin", 1, float(i)) for i in range(10)]
    write(trips(spark, *ten), table_path, {**UPSERT, **many})
    assert len(base_files(table_path)) == 5
    write(trips(spark, *((k, c, 2, v + 10) for k, c, _, v in ten[::3]), ("n", "berlin", 2, 1.0)), table_path, {**UPSERT, **many})
    assert sum(s["numUpdateWrites"] for s in stats(commits(table_path)[-1])) == 4
    assert [s["numInserts"] for s in stats(commits(table_path)[-1]) if "logVersion" not in s] == [1]
    expected = [(k, c, 2, v + 10) if i % 3 == 0 else (k, c, 1, v) for i, (k, c, _, v) in enumerate(ten)]
    assert seen(table_path) == sorted([*expected, ("n", "berlin", 2, 1.0)])


@pytest.mark.parametrize("index", sorted(MOVES))
def test_a_row_that_changes_its_partition_leaves_a_delete_behind(spark: Any, table: str, index: str) -> None:
    options = {**UPSERT, INDEX: index, MOVES[index]: "true"}
    for ts, city in ((10, "paris"), (11, "berlin"), (12, "tokyo")):
        write(trips(spark, ("a", city, ts, float(ts))), table, options)
        assert [trip for trip in seen(table) if trip[0] == "a"] == [("a", city, ts, float(ts))]
    assert [records(log) for log in log_files(table) if log.parent.name == "berlin"][0] == [("DELETE", [("a", None)])]


def test_a_row_with_an_older_ordering_value_does_not_move(spark: Any, table: str) -> None:
    options = {**UPSERT, INDEX: "GLOBAL_SIMPLE", MOVES["GLOBAL_SIMPLE"]: "true", PAYLOAD: DEFAULT_PAYLOAD}
    write(trips(spark, ("a", "berlin", 20, 2.0)), table, options)
    write(trips(spark, ("a", "paris", 15, 3.0)), table, options)
    assert [trip for trip in seen(table) if trip[0] == "a"] == [("a", "berlin", 20, 2.0)]


def test_a_key_that_was_deleted_and_inserted_elsewhere_is_one_row(spark: Any, table_path: str) -> None:
    many = {**MANY_GROUPS}
    write(trips(spark, *((f"k{i}", "berlin", 1, float(i)) for i in range(6))), table_path, {**UPSERT, **many})
    write(trips(spark, ("k1", "berlin", 0, 0.0)), table_path, {**DELETE, **many})
    write(trips(spark, ("k1", "berlin", 3, 30.0)), table_path, {**INSERT, **many})
    write(trips(spark, ("k1", "berlin", 4, 40.0)), table_path, {**UPSERT, **many})
    assert [trip for trip in seen(table_path) if trip[0] == "k1"] == [("k1", "berlin", 4, 40.0)]


def test_an_insert_that_drops_duplicates_accepts_a_deleted_key(spark: Any, table: str) -> None:
    write(trips(spark, ("a", "berlin", 0, 0.0)), table, DELETE)
    options = {**INSERT, "hoodie.datasource.write.insert.drop.duplicates": "true"}
    write(trips(spark, ("a", "berlin", 20, 2.0), ("b", "berlin", 20, 2.0)), table, options)
    assert [trip for trip in seen(table) if trip[1] == "berlin"] == [("a", "berlin", 20, 2.0), SIX[1]]


def test_blocks_and_files_have_the_configured_sizes(spark: Any, table_path: str) -> None:
    write(trips(spark, *((f"k{i:03}", "berlin", 1, float(i)) for i in range(200))), table_path, UPSERT)
    limits = {"hoodie.logfile.data.block.max.size": 4_000, "hoodie.logfile.max.size": 6_000}
    write(trips(spark, *((f"k{i:03}", "berlin", 2, float(-i)) for i in range(200))), table_path, {**UPSERT, **limits})
    logs = sorted(log_files(table_path), key=lambda log: int(log.name.split(".log.")[1].split("_")[0]))
    assert len(logs) > 2
    assert [s["logVersion"] for s in stats(commits(table_path)[-1])] == list(range(1, len(logs) + 1))
    assert all(log.stat().st_size < 12_000 for log in logs)
    assert [row[0] for log in logs for _, its in records(log) for row in its] == [f"k{i:03}" for i in range(200)]
    assert seen(table_path) == [(f"k{i:03}", "berlin", 2, float(-i)) for i in range(200)]


def test_the_inflight_file_holds_the_planned_writes(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX[:4]), table_path, {**UPSERT, **MANY_GROUPS})
    write(trips(spark, ("a", "berlin", 9, 9.5), ("n", "rome", 9, 9.5)), table_path, {**UPSERT, INDEX: "GLOBAL_SIMPLE"})
    name = [n for n in timeline(table_path) if n.endswith(".deltacommit.inflight")][-1]
    profile = json.loads(Path(table_path, ".hoodie", name).read_bytes())
    found = {
        path: [(s["fileId"] == "", s["prevCommit"] == "null", s["numInserts"], s["numUpdateWrites"]) for s in its]
        for path, its in profile["partitionToWriteStats"].items()
    }
    assert found == {"rome": [(True, True, 1, 0)], "berlin": [(True, True, 0, 0), (False, False, 0, 1)]}


def test_the_type_of_a_table_does_not_change(spark: Any, table: str) -> None:
    with pytest.raises(OptionError, match="table.type:\tCOPY_ON_WRITE\tMERGE_ON_READ"):
        write(trips(spark, SIX[0]), table, {**UPSERT, "hoodie.datasource.write.table.type": "COPY_ON_WRITE"})
    write(trips(spark, ("a", "berlin", 9, 9.5)), table, {**TRIPS, OPERATION: "upsert"})
    assert len(log_files(table)) == 1


def test_hfile_blocks_are_refused(spark: Any, table: str) -> None:
    with pytest.raises(Unsupported, match=BLOCKS):
        write(trips(spark, SIX[0]), table, {**UPSERT, BLOCKS: "hfile"})


def test_a_failed_write_leaves_no_files(spark: Any, table: str) -> None:
    before = sorted(str(p) for p in Path(table).rglob("*"))
    batch = values(spark, "id string, city string, ts bigint, fare double", ("a", "berlin", None, 9.5))
    with pytest.raises(Exception, match="Ordering value is null"):
        write(batch, table, UPSERT)
    assert sorted(str(p) for p in Path(table).rglob("*")) == before


@BOTH
def test_a_row_without_a_comparable_ordering_value_is_not_written_to_a_log(
    spark: Any, table_path: str, where: dict[str, Any]
) -> None:
    """Queries and compactions of its slice would fail: its key is in the base file, with an ordering value."""
    by_value = {**where, PAYLOAD: DEFAULT_PAYLOAD}
    write(trips(spark, *SIX), table_path, {**INSERT, **by_value})
    before = sorted(str(p) for p in Path(table_path).rglob("*"))
    batch = values(spark, "id string, city string, ts bigint, fare double", ("a", "berlin", None, 9.5), ("b", "berlin", 9, 9.5))
    last_wins = {**UPSERT, "hoodie.combine.before.upsert": "false"}
    for options in ({**last_wins, **by_value}, {**last_wins, **where, PAYLOAD: LAST_PAYLOAD}):
        with pytest.raises(SchemaError, match="Ordering value is null for 1 of 2 rows: column 'ts'"):
            write(batch, table_path, options)
        assert sorted(str(p) for p in Path(table_path).rglob("*")) == before
    assert seen(table_path) == list(SIX)


def test_a_row_without_an_ordering_value_is_written_to_a_log_whose_merge_does_not_need_it(spark: Any, table: str) -> None:
    batch = values(spark, "id string, city string, ts bigint, fare double", ("a", "berlin", None, 9.5))
    write(batch, table, {**UPSERT, "hoodie.combine.before.upsert": "false"})
    assert plain_rows(table)[:1] == [("a", "berlin", None, 9.5)]


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_a_row_without_a_comparable_ordering_value_is_not_written_to_a_bucket(
    spark: Any, table_path: str, operation: str
) -> None:
    buckets = {**MOR, INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": 2, PAYLOAD: DEFAULT_PAYLOAD}
    last_wins = {"hoodie.combine.before.upsert": "false", OPERATION: operation}
    write(trips(spark, *SIX), table_path, {**buckets, OPERATION: "bulk_insert"})
    batch = values(spark, "id string, city string, ts bigint, fare double", ("a", "berlin", None, 9.5))
    with pytest.raises(SchemaError, match="Ordering value is null for 1 of 1 rows: column 'ts'"):
        write(batch, table_path, {**buckets, **last_wins})
    assert plain_rows(table_path) == sorted(SIX, key=repr)

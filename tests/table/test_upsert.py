"""upsert: known keys are merged and new ones added in one commit; wrong input is refused and leaves the table as it was."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import CorruptFile, OptionError, PenstockError, SchemaError, StorageError, Unsupported
from tests.kit.golden import unpack_golden
from tests.kit.readers import hudi_rs_rows, rows_of
from tests.table.tables import (
    BULK,
    INSERT,
    KEY,
    META,
    NAME,
    OPERATION,
    ORDERING,
    SIX,
    TRIPS,
    base_files,
    commits,
    load,
    snapshot,
    spoil,
    state_of,
    stats,
    timeline,
    trips,
    values,
    write,
)
from tests.table.upserts import (
    DEFAULT_PAYLOAD,
    EMPTY_PAYLOAD,
    IN_TASKS,
    INDEX,
    MANY_GROUPS,
    ON_DRIVER,
    PAYLOAD,
    UPSERT,
    columns,
    counts,
    inflight,
    rows,
    stored,
)

PATH, TIME, SEQNO = "_hoodie_partition_path", "_hoodie_commit_time", "_hoodie_commit_seqno"
BOTH = pytest.mark.parametrize("where", [ON_DRIVER, IN_TASKS], ids=["driver", "tasks"])


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six trips in three cities. Read only: copy it to write to it."""
    path = str(tmp_path_factory.mktemp("made") / "table")
    write(trips(spark, *SIX), path, UPSERT)
    return path


# --- what an upsert does


def test_the_first_upsert_makes_the_table(made: str) -> None:
    (commit,) = commits(made)
    assert commit["operationType"] == "UPSERT"
    assert counts(commit) == [(city, 2, 0, 0, 2) for city in ("berlin", "paris", "tokyo")]
    assert columns(made, "id", "city", "ts", "fare") == sorted(SIX)


def test_an_upsert_updates_adds_and_keeps_rows_with_the_right_meta_columns_and_counts(spark: Any, table: str) -> None:
    old = {row["id"]: row for row in stored(table)}
    write(trips(spark, ("b", "berlin", 9, 20.5), ("g", "berlin", 1, 7.5), ("h", "rome", 1, 8.5)), table, UPSERT)
    new = {row["id"]: row for row in stored(table)}
    first, second = (n.split(".")[0] for n in timeline(table) if n.endswith(".commit"))
    assert {k: (v["fare"], v[TIME]) for k, v in new.items()} == {
        **{k: (v["fare"], first) for k, v in old.items()},
        "b": (20.5, second),
        "g": (7.5, second),
        "h": (8.5, second),
    }
    assert new["a"][SEQNO] == old["a"][SEQNO]
    assert new["a"]["_hoodie_file_name"] == new["b"]["_hoodie_file_name"] != old["a"]["_hoodie_file_name"]
    assert new["c"] == old["c"]
    assert [new[k][SEQNO].rsplit("_", 1)[1] for k in "bg"] == ["1", "2"]  # their places in the file
    commit = commits(table)[-1]
    assert counts(commit) == [("berlin", 3, 1, 0, 1), ("rome", 1, 0, 0, 1)]
    assert {s["partitionPath"]: s["prevCommit"] for s in stats(commit)} == {"berlin": first, "rome": "null"}


def test_the_inflight_file_holds_the_workload_profile(spark: Any, table: str) -> None:
    write(trips(spark, ("a", "berlin", 9, 1.0), ("h", "rome", 1, 8.5), ("i", "rome", 1, 8.5)), table, UPSERT)
    profile = inflight(table)
    assert profile["operationType"] == "UPSERT"
    found = {
        p: [(s["fileId"], s["numInserts"], s["numUpdateWrites"]) for s in its]
        for p, its in profile["partitionToWriteStats"].items()
    }
    (berlin,) = [f.name.split("_")[0] for f in base_files(table) if f.parent.name == "berlin"][:1]
    assert found == {"berlin": [("", 0, 0), (berlin, 0, 1)], "rome": [("", 2, 0)]}


def test_options_with_the_prefix_go_into_the_commit(spark: Any, table: str) -> None:
    more = {"hoodie.datasource.write.commitmeta.key.prefix": "note.", "note.by": "me", "other": "no"}
    write(trips(spark, SIX[0]), table, {**UPSERT, **more})
    extra = commits(table)[-1]["extraMetadata"]
    assert extra["note.by"] == "me"
    assert "other" not in extra
    assert extra["schema"] == commits(table)[0]["extraMetadata"]["schema"]


@BOTH
def test_deletes_in_the_rows_are_carried_out(spark: Any, table: str, where: dict[str, Any]) -> None:
    options = {**UPSERT, **where, "hoodie.write.set.null.for.missing.columns": "true"}
    batch = [
        ("a", "berlin", 9, 0.0, True),
        ("b", "berlin", 9, 9.0, False),
        ("u", "berlin", 1, 0.0, True),
        ("u", "rome", 1, 0.0, True),
    ]
    write(rows(spark, *batch), table, options)
    assert [r for r in columns(table, "id", "fare") if r[0] in "abu"] == [("b", 9.0)]
    assert counts(commits(table)[-1]) == [("berlin", 1, 1, 2, 1)]
    assert not Path(table, "rome").exists()


def test_an_empty_payload_deletes_every_key_it_meets(spark: Any, table: str) -> None:
    batch = trips(spark, ("a", "berlin", 0, 0.0), ("q", "berlin", 0, 0.0), ("d", "paris", 0, 0.0))
    write(batch, table, {**UPSERT, PAYLOAD: EMPTY_PAYLOAD})
    assert columns(table, "id") == [("b",), ("c",), ("e",), ("f",)]
    assert counts(commits(table)[-1]) == [("berlin", 1, 0, 2, 1), ("paris", 1, 0, 1, 0)]


@BOTH
def test_a_late_row_loses_only_under_the_payload_that_compares(spark: Any, table: str, where: dict[str, Any]) -> None:
    batch = trips(spark, ("b", "berlin", 1, 20.0), ("d", "paris", 4, 40.0))
    write(batch, table, {**UPSERT, **where, PAYLOAD: DEFAULT_PAYLOAD})
    assert [r for r in columns(table, "id", "fare") if r[0] in "bd"] == [("b", 2.5), ("d", 40.0)]
    write(batch, table, {**UPSERT, **where})
    assert [r for r in columns(table, "id", "fare") if r[0] in "bd"] == [("b", 20.0), ("d", 40.0)]


@BOTH
def test_a_batch_is_reduced_by_ordering_value_then_by_arrival(spark: Any, table: str, where: dict[str, Any]) -> None:
    batch = [("a", "berlin", 5, 1.0), ("a", "berlin", 7, 2.0), ("a", "berlin", 7, 3.0), ("a", "berlin", 6, 4.0)]
    write(trips(spark, *batch).coalesce(1), table, {**UPSERT, **where})
    assert ("a", 7, 3.0) in columns(table, "id", "ts", "fare")
    write(trips(spark, *batch).coalesce(1), table, {**UPSERT, **where, "hoodie.combine.before.upsert": "false"})
    assert ("a", 6, 4.0) in columns(table, "id", "ts", "fare")  # the last one wins


def test_a_key_that_is_in_the_table_several_times_is_updated_each_time(spark: Any, table: str) -> None:
    write(trips(spark, ("a", "berlin", 1, 1.0), ("a", "berlin", 2, 2.0)), table, INSERT)
    write(trips(spark, ("a", "berlin", 9, 9.0)), table, UPSERT)
    assert [r for r in columns(table, "id", "fare") if r[0] == "a"] == [("a", 9.0)] * 3
    assert counts(commits(table)[-1]) == [("berlin", 4, 3, 0, 0)]


def test_a_nested_ordering_field_decides_in_the_batch_and_against_storage(spark: Any, table_path: str) -> None:
    def nested(*of: tuple[str, int, int]) -> Any:
        frame = values(spark, "id string, at int, v int", *of)
        return frame.selectExpr("id", "named_struct('at', at) as meta", "v")

    options = {NAME: "t", KEY: "id", ORDERING: "meta.at", PAYLOAD: DEFAULT_PAYLOAD}
    write(nested(("a", 2, 1), ("a", 1, 2), ("b", 5, 1)), table_path, options)
    write(nested(("a", 3, 3), ("b", 4, 2)), table_path, options)
    assert columns(table_path, "id", "v") == [("a", 3), ("b", 1)]


@BOTH
def test_rows_of_a_task_beyond_its_memory_are_spilled_and_written_unchanged(
    spark: Any, table_path: str, tmp_path: Path, where: dict[str, Any]
) -> None:
    batch = spark.range(600).selectExpr("concat('k', id % 500) as id", "'x' as city", "id as ts", "cast(id as double) as fare")
    options = {
        **UPSERT,
        **where,
        "hoodie.memory.merge.max.size": 4096,
        "hoodie.memory.spillable.map.path": str(tmp_path / "spill"),
    }
    write(batch, table_path, {**options, **MANY_GROUPS, "hoodie.copyonwrite.insert.split.size": 100})
    write(batch.selectExpr("id", "city", "ts + 1000 as ts", "fare + 0.5 as fare"), table_path, {**options, **MANY_GROUPS})
    expected = {f"k{n % 500}": n + 0.5 for n in range(600)}
    assert dict(columns(table_path, "id", "fare")) == expected
    assert (tmp_path / "spill").is_dir()  # it was used
    assert list((tmp_path / "spill").iterdir()) == []


def test_a_hundred_thousand_rows_of_one_key_become_one_row(spark: Any, table: str) -> None:
    batch = spark.range(100_000).selectExpr("'a' as id", "'berlin' as city", "id % 1000 as ts", "cast(id as double) as fare")
    write(batch.coalesce(1), table, UPSERT)
    assert ("a", 999, 99_999.0) in columns(table, "id", "ts", "fare")
    assert counts(commits(table)[-1]) == [("berlin", 2, 1, 0, 0)]


@pytest.mark.parametrize("operation", ["upsert", "delete", "insert"])
def test_an_empty_batch_is_an_empty_commit_or_none(spark: Any, table: str, operation: str) -> None:
    before = state_of(table)
    options = {**TRIPS, OPERATION: operation}
    write(trips(spark), table, {**options, "hoodie.allow.empty.commit": "false"})
    assert state_of(table) == before
    write(trips(spark), table, options)
    assert commits(table)[-1]["partitionToWriteStats"] == {}
    assert commits(table)[-1]["operationType"] == operation.upper()
    assert snapshot(spark, table) == sorted(SIX, key=repr)


def test_the_same_writes_make_the_same_table(spark: Any, tmp_path: Path) -> None:
    def history(path: str) -> Any:
        options = {**UPSERT, **MANY_GROUPS, INDEX: "GLOBAL_SIMPLE"}
        write(trips(spark, *SIX, ("g", "paris", 1, 1.0)).coalesce(1), path, options)
        write(trips(spark, ("g", "berlin", 2, 2.0), ("c", "paris", 5, 5.0), ("n", "tokyo", 1, 1.0)).coalesce(1), path, options)
        last = timeline(path)[-1].split(".")[0]
        return [(*r[:4], r[4].replace(last, "", 1)) for r in columns(path, PATH, "id", "ts", "fare", SEQNO) if last in r[4]], [
            counts(c) for c in commits(path)
        ]

    assert history(str(tmp_path / "one")) == history(str(tmp_path / "two"))


# --- which operation it is


@pytest.mark.parametrize(
    ("options", "operation"),
    [
        ({}, "UPSERT"),
        ({KEY: None, ORDERING: None}, "BULK_INSERT"),
        ({"hoodie.datasource.write.insert.drop.duplicates": "true"}, "INSERT"),
        ({OPERATION: "upsert", "hoodie.datasource.write.insert.drop.duplicates": "true"}, "INSERT"),
    ],
    ids=["default", "no-key", "drop-duplicates", "upsert-drop-duplicates"],
)
def test_the_operation_is_deduced(spark: Any, table_path: str, options: dict[str, Any], operation: str) -> None:
    write(trips(spark, SIX[0]), table_path, {k: v for k, v in {**TRIPS, **options}.items() if v is not None})
    assert commits(table_path)[-1]["operationType"] == operation


# --- inserts that look at keys


@BOTH
def test_dropping_duplicates_keeps_known_rows_and_adds_one_row_per_new_key(spark: Any, table: str, where: dict[str, Any]) -> None:
    before = list(stored(table))
    batch = [("a", "berlin", 30, 9.0), ("a", "paris", 20, 9.0), ("n", "berlin", 3, 1.0), ("n", "berlin", 9, 2.0)]
    options = {**INSERT, **where, "hoodie.datasource.write.insert.drop.duplicates": "true"}
    write(trips(spark, *batch), table, options)
    assert columns(table, PATH, "id", "fare") == sorted(
        [*((r[PATH], r["id"], r["fare"]) for r in before), ("paris", "a", 9.0), ("berlin", "n", 2.0)], key=repr
    )
    assert counts(commits(table)[-1]) == [("berlin", 3, 0, 0, 1), ("paris", 3, 0, 0, 1)]
    write(trips(spark, *batch), table, {**options, INDEX: "GLOBAL_BLOOM"})
    assert counts(commits(table)[-1]) == []


@BOTH
def test_an_insert_that_may_not_duplicate_merges_into_the_file_it_fills(spark: Any, table: str, where: dict[str, Any]) -> None:
    options = {**INSERT, **where, "hoodie.merge.allow.duplicate.on.inserts": "false"}
    write(trips(spark, ("a", "berlin", 0, 9.0), ("n", "berlin", 3, 1.0), ("n", "berlin", 2, 2.0)).coalesce(1), table, options)
    assert [r for r in columns(table, "id", "fare") if r[0] in "an"] == [("a", 9.0), ("n", 2.0)]
    assert counts(commits(table)[-1]) == [("berlin", 3, 1, 0, 1)]


def test_an_insert_drops_rows_that_are_marked_as_deleted(spark: Any, table_path: str) -> None:
    batch = rows(spark, ("a", "x", 1, 1.0, False), ("b", "x", 1, 1.0, True))
    write(batch, table_path, INSERT)
    write(batch, table_path, INSERT)
    assert columns(table_path, "id") == [("a",), ("a",)]
    assert [counts(c) for c in commits(table_path)] == [[("x", 1, 0, 1, 1)], [("x", 2, 0, 1, 2)]]


# --- the incoming rows are evaluated once

COMBINED = {"hoodie.combine.before.insert": "true"}
DROPPED = {"hoodie.datasource.write.insert.drop.duplicates": "true"}


@pytest.mark.parametrize(
    "options",
    [
        UPSERT,
        {**UPSERT, **IN_TASKS, INDEX: "GLOBAL_BLOOM"},
        {**TRIPS, OPERATION: "delete"},
        INSERT,
        {**INSERT, **COMBINED},
        {**INSERT, **DROPPED, **IN_TASKS},
        BULK,
        {**BULK, **COMBINED},
    ],
    ids=["upsert", "upsert-tasks", "delete", "insert", "insert-combine", "insert-drop", "bulk", "bulk-combine"],
)
def test_the_rows_are_evaluated_once(spark: Any, table: str, tmp_path: Path, options: dict[str, Any]) -> None:
    evaluations = tmp_path / "evaluations"
    noting = noting_evaluations(str(evaluations))
    source = trips(spark, ("a", "berlin", 9, 9.0), ("n", "rome", 1, 1.0)).coalesce(1)
    write(source.mapInArrow(noting, source.schema), table, options)
    assert evaluations.read_text() == "once\n"


def noting_evaluations(path: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a DataFrame that writes a line whenever it is evaluated."""

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open(path, "a") as file:
            file.write("once\n")
        yield from batches

    return evaluate


# --- tables of real Hudi


@pytest.mark.parametrize("name", ["cow_v6_nonpartitioned", "cow_v6_simplekeygen_nonhivestyle", "cow_v6_complexkeygen_hivestyle"])
def test_rows_of_real_hudi_are_merged_with_ours(spark: Any, tmp_path: Path, name: str) -> None:
    pytest.importorskip("hudi")
    path = unpack_golden(name, tmp_path)
    before = rows_of(hudi_rs_rows(path))
    odd = load(spark, str(path)).drop(*META).where("id % 2 = 1")
    write(odd.withColumn("intField", odd["intField"] + 1), str(path), {PAYLOAD: DEFAULT_PAYLOAD})
    expected = [{**row, "intField": row["intField"] + row["id"] % 2} for row in before]
    after = rows_of(hudi_rs_rows(path))
    assert sorted(after, key=repr) == sorted(expected, key=repr)
    assert {row["id"] % 2 for row in after} == {0, 1}  # rows of both writers, in nested types too
    ours = load(spark, str(path)).select("id", "intField", "arrayField", "mapField", "structField")
    assert sorted(r["intField"] for r in ours.collect()) == sorted(r["intField"] for r in expected)


def test_an_empty_table_of_real_hudi_accepts_an_upsert(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("hudi")
    path = unpack_golden("cow_v6_empty", tmp_path)
    frame = load(spark, str(path)).drop(*META)
    fields = ", ".join(
        f"cast({'1' if f.name == 'id' else 'null'} as {f.dataType.simpleString()}) as `{f.name}`" for f in frame.schema
    )
    write(spark.sql(f"select {fields}"), str(path), {"hoodie.combine.before.upsert": "false"})
    assert [r["id"] for r in rows_of(hudi_rs_rows(path))] == [1]


# --- what is refused


def refused(table: str, kind: type[PenstockError], match: str, action: Callable[[], Any]) -> None:
    """Check that the action raises this error and leaves the table as it is."""
    before = state_of(table)
    with pytest.raises(kind, match=match):
        action()
    assert state_of(table) == before


def test_rows_without_the_ordering_column_are_refused(spark: Any, table_path: str) -> None:
    frame = values(spark, "id string, v int", ("a", 1))
    options = {NAME: "t", KEY: "id"}
    match = r"ts\(Part -ts\) field not found in record.*\[id, v\].*precombine\.field"
    with pytest.raises(SchemaError, match=match):
        write(frame, table_path, options)
    assert not Path(table_path).exists()
    write(frame, table_path, {**options, OPERATION: "insert"})
    refused(table_path, SchemaError, match, lambda: write(frame, table_path, options))
    refused(table_path, SchemaError, r"nosuch\(Part -nosuch\)", lambda: write(frame, table_path, {**options, ORDERING: "nosuch"}))
    write(frame, table_path, {**options, "hoodie.combine.before.upsert": "false"})
    assert columns(table_path, "id", "v") == [("a", 1)]


@BOTH
def test_null_ordering_values_are_refused(spark: Any, table: str, where: dict[str, Any]) -> None:
    batch = values(spark, "id string, city string, ts bigint, fare double", ("a", "berlin", None, 1.0), ("b", "paris", 1, 1.0))
    refused(
        table,
        SchemaError,
        r"Ordering value is null for 1 of 1 rows: column 'ts'",
        lambda: write(batch, table, {**UPSERT, **where}),
    )
    options = {**UPSERT, **where, "hoodie.combine.before.upsert": "false", PAYLOAD: DEFAULT_PAYLOAD}
    refused(table, SchemaError, r"Ordering value is null in column 'ts'", lambda: write(batch, table, options))


@pytest.mark.parametrize(
    ("kinds", "match"),
    [
        ("id string, city string, ts string, fare double", r"'ts' is bigint in the table and string in the data"),
        ("id string, city string, ts bigint, fare boolean", r"'fare' is double in the table and boolean in the data"),
    ],
)
def test_an_upsert_with_types_that_do_not_fit_is_refused(spark: Any, table: str, kinds: str, match: str) -> None:
    refused(table, SchemaError, match, lambda: write(values(spark, kinds, ("a", "berlin", 1, True)), table, UPSERT))


def test_types_that_widen_are_accepted_and_ordering_values_still_compare(spark: Any, table_path: str) -> None:
    options = {**UPSERT, PAYLOAD: DEFAULT_PAYLOAD}
    write(
        values(spark, "id string, city string, ts int, fare float", ("a", "x", 5, 1.5), ("b", "x", 5, 1.5)), table_path, options
    )
    wider = values(spark, "id string, city string, ts bigint, fare double", ("a", "x", 1 << 40, 2.5), ("b", "x", 4, 2.5))
    write(wider, table_path, options)
    assert columns(table_path, "id", "ts", "fare") == [("a", 1 << 40, 2.5), ("b", 5, 1.5)]
    narrower = values(spark, "id string, city string, ts int, fare float", ("b", "x", 6, 3.5))
    write(narrower, table_path, options)
    assert columns(table_path, "id", "ts", "fare") == [("a", 1 << 40, 2.5), ("b", 6, 3.5)]


def test_a_column_dropped_from_the_batch_is_refused_filled_or_dropped(spark: Any, table: str) -> None:
    batch = values(spark, "id string, city string, ts bigint", ("a", "berlin", 9))
    refused(table, SchemaError, r"missing in the data: 'fare'", lambda: write(batch, table, UPSERT))
    write(batch, table, {**UPSERT, "hoodie.write.set.null.for.missing.columns": "true"})
    assert [r for r in columns(table, "id", "fare") if r[0] in "ab"] == [("a", None), ("b", 2.5)]
    write(batch, table, {**UPSERT, "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"})
    assert "fare" not in load(spark, table).columns


def test_another_key_generator_is_refused(spark: Any, table: str) -> None:
    other = {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"}
    refused(
        table,
        OptionError,
        r"KeyGenerator:\t.*Complex.*\t.*Simple",
        lambda: write(trips(spark, SIX[0]), table, {**UPSERT, **other}),
    )


@pytest.mark.parametrize(
    "options",
    [
        {OPERATION: "upsert"},
        {OPERATION: "delete"},
        {OPERATION: "insert", **DROPPED},
        {OPERATION: "insert", "hoodie.merge.allow.duplicate.on.inserts": "false"},
    ],
    ids=["upsert", "delete", "insert-drop", "insert-merge"],
)
def test_a_table_without_meta_fields_has_no_keys_to_find(spark: Any, table_path: str, options: dict[str, Any]) -> None:
    plain = {**TRIPS, "hoodie.populate.meta.fields": "false"}
    write(trips(spark, *SIX), table_path, {**plain, OPERATION: "bulk_insert"})
    match = r"hoodie\.populate\.meta\.fields=false.*use insert or bulk_insert"
    refused(table_path, Unsupported, match, lambda: write(trips(spark, SIX[0]), table_path, {**plain, **options}))


@BOTH
@pytest.mark.parametrize("sizes", [{}, MANY_GROUPS], ids=["one-group", "many-groups"])
def test_a_damaged_or_missing_base_file_stops_the_write(
    spark: Any, table_path: str, where: dict[str, Any], sizes: dict[str, Any]
) -> None:
    write(trips(spark, *((k, "x", 1, 1.0) for k in "abcd")), table_path, {**UPSERT, **sizes})
    first = base_files(table_path)[0]
    whole = first.read_bytes()
    spoil([first])
    batch = trips(spark, *((k, "x", 2, 2.0) for k in "abcd"))
    refused(table_path, CorruptFile, first.name, lambda: write(batch, table_path, {**UPSERT, **where, **sizes}))
    first.write_bytes(whole)
    write(batch, table_path, {**UPSERT, **where, **sizes})
    assert {fare for (fare,) in columns(table_path, "fare")} == {2.0}


def test_a_full_disk_is_an_error_and_leaves_the_table_as_it_was(spark: Any, table: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def on_a_full_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, hard))  # this process; Spark's workers staged the rows already
        try:
            write(trips(spark, ("a", "berlin", 9, 9.0), ("n", "rome", 1, 1.0)), table, UPSERT)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    refused(table, StorageError, "File too large", on_a_full_disk)
    write(trips(spark, ("a", "berlin", 9, 9.0)), table, UPSERT)
    assert ("a", 9.0) in columns(table, "id", "fare")

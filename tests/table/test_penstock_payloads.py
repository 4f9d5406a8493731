"""Penstock's own payloads keep the same rows in log files and in a copy-on-write table, before and after compaction."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.errors import OptionError, SchemaError
from tests.table.tables import ORDERING, load, properties, write
from tests.table.upserts import PAYLOAD, UPSERT, rows

COLUMNS = {
    "id": "string",
    "city": "string",
    "ts": "bigint",
    "n": "int",
    "s": "string",
    "_changed_columns": "array<string>",
    "history": "array<struct<ts:bigint,s:string>>",
    "_hoodie_is_deleted": "boolean",
}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
DELETED = "deleted"
#: id, ts, n, s; then the columns that the row supplies (all, if none are named), or that its key is gone.
Change = tuple[Any, ...]
BATCHES: list[list[Change]] = [
    [("a", 1, 1, "a1"), ("b", 1, 1, "b1"), ("c", 1, 1, "c1"), ("d", 1, 1, "d1"), ("e", 5, 1, "e5")],
    [
        ("a", 2, 2, None, ["n"]),
        ("a", 3, None, None, ["s"]),
        ("b", 2, 2, "b2", DELETED),
        ("b", 3, 3, None, ["n"]),
        ("c", 2, 2, "c2", DELETED),
        ("d", 2, None, "d2"),
        ("e", 4, 9, "late"),
    ],
    [("a", 4, 4, "a4", ["s"]), ("b", 4, 4, "b4"), ("c", 3, 3, "c3"), ("d", 3, 3, "d3", DELETED), ("f", 1, 6, "f1")],
]
OPTIONS = {
    "penstock.masked": {},
    "penstock.aggregate": {"penstock.payload.aggregate": "n:sum,s:first"},
    "penstock.keep_history": {"penstock.payload.history.limit": "2"},
    "penstock.first_row": {},
}
LEFT = {
    "penstock.masked": {"a": (4, 2, "a4"), "b": (4, 4, "b4"), "c": (3, 3, "c3"), "e": (5, 1, "e5"), "f": (1, 6, "f1")},
    "penstock.aggregate": {"a": (4, 7, "a1"), "b": (4, 7, "b4"), "c": (3, 3, "c3"), "e": (5, 10, "late"), "f": (1, 6, "f1")},
    "penstock.keep_history": {"a": (4, 4, "a4"), "b": (4, 4, "b4"), "c": (3, 3, "c3"), "e": (5, 1, "e5"), "f": (1, 6, "f1")},
    "penstock.first_row": {"a": (1, 1, "a1"), "b": (3, 3, None), "c": (3, 3, "c3"), "e": (5, 1, "e5"), "f": (1, 6, "f1")},
}


def batch(spark: Any, changes: list[Change]) -> Any:
    """Return a DataFrame of changes."""
    data = []
    for id_, ts, n, s, *more in changes:
        says = more[0] if more else None
        data.append((id_, "x", ts, n, s, says if isinstance(says, list) else None, None, says == DELETED))
    return spark.createDataFrame(data, ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())).coalesce(1)


def read_rows(spark: Any, path: str) -> list[tuple[Any, ...]]:
    """Return the rows of a snapshot query, sorted."""
    names = ["id", "ts", "n", "s", "_changed_columns", "history"]
    return sorted(tuple(row) for row in load(spark, path).select(*names).collect())


@pytest.mark.parametrize("name", OPTIONS)
def test_logs_keep_the_same_rows_as_base_files(spark: Any, table_path: str, name: str) -> None:
    options = {**UPSERT, PAYLOAD: name, **OPTIONS[name]}
    ours, logs = f"{table_path}-base", f"{table_path}-logs"
    for number, changes in enumerate(BATCHES):
        frame = batch(spark, changes)
        write(frame, ours, options)
        write(frame, logs, {**options, **MERGE_ON_READ} if number == 0 else {**UPSERT})  # the table remembers its payload
    expected = read_rows(spark, ours)
    assert {row[0]: row[1:4] for row in expected} == LEFT[name]
    assert name != "penstock.masked" or all(row[4] is None for row in expected)
    assert read_rows(spark, logs) == expected
    assert penstock.Table.open(logs).compact()
    assert read_rows(spark, logs) == expected
    write(batch(spark, [("f", 2, None, None, ["s"])]), logs, UPSERT)
    write(batch(spark, [("f", 2, None, None, ["s"])]), ours, options)
    assert read_rows(spark, logs) == read_rows(spark, ours)


def test_a_field_inside_a_struct_orders_rows_of_a_log_too(spark: Any, table_path: str) -> None:
    options = {**UPSERT, **MERGE_ON_READ, PAYLOAD: "penstock.masked", ORDERING: "m.ts"}
    for ts, s in ((1, "base"), (5, "newest"), (3, "late")):
        write(spark.sql(f"select 'a' id, 'x' city, named_struct('ts', {ts}L) m, '{s}' s"), table_path, options)
    assert [row.s for row in load(spark, table_path).collect()] == ["newest"]
    deleted = spark.sql("select 'a' id, 'x' city, named_struct('ts', 4L) m, 's' s, true as _hoodie_is_deleted")
    write(deleted, table_path, options)
    assert [row.s for row in load(spark, table_path).collect()] == ["newest"]


def test_rows_that_cannot_be_merged_are_not_written_to_a_log(spark: Any, table_path: str) -> None:
    write(batch(spark, BATCHES[0]), table_path, {**UPSERT, **MERGE_ON_READ, PAYLOAD: "penstock.masked"})
    before = read_rows(spark, table_path)
    with pytest.raises(SchemaError, match="'_changed_columns' names 'nowhere'"):
        write(batch(spark, [("a", 2, 2, None, ["nowhere"])]), table_path, UPSERT)
    assert read_rows(spark, table_path) == before


def test_a_write_with_another_payload_than_that_of_the_logs_is_refused(spark: Any, table_path: str) -> None:
    write(rows(spark, ("a", "x", 1, 1.0, False)), table_path, {**UPSERT, **MERGE_ON_READ, PAYLOAD: "penstock.first_row"})
    assert properties(table_path)["hoodie.compaction.payload.class"] == "penstock.first_row"
    with pytest.raises(OptionError, match=r"DefaultHoodieRecordPayload cannot write to .* merged by penstock\.first_row"):
        write(rows(spark, ("a", "x", 2, 2.0, False)), table_path, {**UPSERT, PAYLOAD: "DefaultHoodieRecordPayload"})

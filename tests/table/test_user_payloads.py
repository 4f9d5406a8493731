"""Payloads and mergers of users: both kinds of table have the same rows, and errors leave the table as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import OptionError, PayloadError, Unsupported
from penstock.registered.functions import MERGE_FUNCTIONS
from tests.table.tables import BULK, META, OPERATION, TRIPS, load, properties, sorted_rows, state_of, write
from tests.table.upserts import IN_TASKS, INDEX, MANY_GROUPS, MOVES, ON_DRIVER, PAYLOAD, UPSERT, rows

TYPE = "hoodie.datasource.write.table.type"
MERGER = "hoodie.write.record.merge.custom.implementation.classes"
MODE = "hoodie.record.merge.mode"
MOR = {TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "false"}
FIRST = [("a", "x", 1, 1.0, False), ("b", "x", 1, 2.0, False), ("c", "y", 1, 3.0, False), ("d", "y", 1, 4.0, False)]
BATCHES = [
    # two rows of a key, the newer one first; a sum of 0; a delete between two rows; a new key with two rows; a delete
    [
        ("a", "x", 3, 10.0, False),
        ("a", "x", 2, 20.0, False),
        ("b", "x", 2, -2.0, False),
        ("c", "y", 2, 5.0, False),
        ("c", "y", 3, None, True),
        ("c", "y", 4, 7.0, False),
        ("e", "y", 1, 1.0, False),
        ("e", "y", 2, 1.5, False),
        ("d", "y", 2, None, True),
    ],
    # a row older than the stored one counts all the same; keys that were deleted come again
    [("a", "x", 1, 100.0, False), ("b", "x", 5, 3.0, False), ("d", "y", 5, 6.0, False), ("c", "y", 5, 1.0, False)],
]
AFTER = [
    [("a", 3, 31.0), ("c", 4, 7.0), ("e", 2, 2.5)],
    [("a", 3, 131.0), ("b", 5, 3.0), ("c", 5, 8.0), ("d", 5, 6.0), ("e", 2, 2.5)],
]


def add_row(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any] | None:
    """Add the fares. A sum of 0 deletes the row."""
    if old is None:
        return new
    fare = old["fare"] + new["fare"]
    return {**new, "fare": fare, "ts": max(old["ts"], new["ts"])} if fare else None


def add_columns(old: pa.Table, new: pa.Table) -> pa.Table:
    """Add the fares of many rows at once."""
    fare = pc.add(old["fare"], new["fare"])
    columns = {"fare": fare, "ts": pc.max_element_wise(old["ts"], new["ts"]), "_hoodie_is_deleted": pc.equal(fare, 0)}
    return pa.table({name: columns.get(name, new[name]) for name in new.column_names})


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The names that these tests register; none are left afterwards."""
    monkeypatch.setattr(MERGE_FUNCTIONS, "registered", {})
    penstock.payload("add_row")(add_row)
    penstock.merger("add_columns")(add_columns)
    yield


def read_rows(spark: Any, path: str, **options: Any) -> list[tuple[Any, ...]]:
    return sorted_rows(load(spark, path, **options).select("id", "ts", "fare"))


@pytest.mark.parametrize("kind", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    ("chosen", "where"),
    [({PAYLOAD: "add_row"}, ON_DRIVER), ({MODE: "CUSTOM", MERGER: "add_columns"}, {**IN_TASKS, **MANY_GROUPS})],
    ids=["payload-driver", "merger-tasks"],
)
def test_a_registered_payload_merges_a_history_of_rows_and_deletes(
    spark: Any, table_path: str, kind: dict[str, Any], chosen: dict[str, str], where: dict[str, Any]
) -> None:
    write(rows(spark, *FIRST).coalesce(1), table_path, {**BULK, **kind, **chosen})
    for batch, after in zip(BATCHES, AFTER, strict=True):
        write(rows(spark, *batch).coalesce(1), table_path, {**UPSERT, **chosen, **where})
        assert read_rows(spark, table_path) == after
    if kind:
        assert properties(table_path)["hoodie.compaction.payload.class"] in chosen.values()
        table = penstock.Table.open(table_path, spark)
        table.compact_logs({"hoodie.log.compaction.blocks.threshold": 1})
        assert read_rows(spark, table_path) == AFTER[-1]
        assert [commit.operation for commit in table.compact(options=where)] == ["compact"]
        assert read_rows(spark, table_path) == AFTER[-1]
        assert read_rows(spark, table_path, **{"hoodie.datasource.query.type": "read_optimized"}) == AFTER[-1]


def test_an_insert_that_combines_calls_the_function(spark: Any, table_path: str) -> None:
    for operation in ("insert", "bulk_insert"):
        options = {**UPSERT, OPERATION: operation, PAYLOAD: "add_row", "hoodie.combine.before.insert": "true"}
        write(rows(spark, *BATCHES[0]).coalesce(1), f"{table_path}-{operation}", options)
        left = read_rows(spark, f"{table_path}-{operation}")
        assert left == [("a", 3, 30.0), ("b", 2, -2.0), ("c", 4, 7.0), ("e", 2, 2.5)], operation
    penstock.payload("add_row")(fails)
    with pytest.raises(PayloadError, match="payload 'add_row' raised KeyError for key id='a', city='x'.*(?s:.*)in fails"):
        write(rows(spark, *BATCHES[0]).coalesce(1), table_path, options)
    assert not Path(table_path).exists()


def first_time(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any] | None:
    """Set a new row's fare to its time and keep it. A late row changes nothing; 99 deletes the key."""
    if old is None:
        return {**new, "fare": float(new["ts"])}
    if new["ts"] < old["ts"]:
        return old
    return {**new, "fare": old["fare"]} if new["ts"] != 99 else None


@pytest.mark.parametrize("kind", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
def test_rows_that_move_to_another_partition_are_merged_by_the_function(
    spark: Any, table_path: str, kind: dict[str, Any]
) -> None:
    penstock.payload("first_time")(first_time)
    options = {**UPSERT, **kind, PAYLOAD: "first_time", INDEX: "GLOBAL_SIMPLE", MOVES["GLOBAL_SIMPLE"]: "true"}
    write(rows(spark, *FIRST), table_path, options)
    away = [("a", "y", 5, 0.0, False), ("b", "y", 0, 0.0, False), ("c", "x", 99, 0.0, False), ("d", "x", 5, None, True)]
    back = [("a", "x", 6, 0.0, False), ("b", "z", 7, 0.0, False), ("c", "z", 8, 0.0, False)]
    states = {
        0: [("a", "y", 5, 1.0), ("b", "x", 1, 1.0), ("n", "y", 3, 3.0)],
        1: [("a", "x", 6, 1.0), ("b", "z", 7, 1.0), ("c", "z", 8, 8.0), ("n", "y", 3, 3.0)],
    }
    plan = penstock.Table.open(table_path, spark).explain_merge(
        rows(spark, *away), options={key: value for key, value in options.items() if key != OPERATION}
    )
    assert {one.key: (one.outcome.value, one.partition) for one in plan} == {
        "a": ("move", "y"),
        "b": ("update", "x"),
        "c": ("delete", "y"),
        "d": ("delete", "y"),
    }
    for number, batch in enumerate([[*away, ("n", "y", 3, 0.0, False)], back]):
        write(rows(spark, *batch), table_path, {**options, **(IN_TASKS if number else {})})
        frame = load(spark, table_path)
        assert sorted_rows(frame.select("id", "city", "ts", "fare")) == states[number]
        assert sorted_rows(frame.select("id", "_hoodie_partition_path", "ts", "fare")) == states[number]


def fails(old: Any, new: Any) -> Any:
    raise KeyError("currency")


def sleeps(old: Any, new: Any) -> Any:
    while new["id"] == "a":
        pass
    return new


WRONG = {
    "raises": (penstock.payload, fails, "payload 'raises' raised KeyError for key id='a', city='x'.*(?s:.*)in fails"),
    "moves": (penstock.payload, lambda old, new: {**new, "city": "z"}, "payload 'moves' changed column 'city'.*id='a'"),
    "renames": (penstock.payload, lambda old, new: {**new, "id": "z"}, "payload 'renames' changed column 'id'.*to 'z' .*id='a'"),
    "widens": (penstock.payload, lambda old, new: {**new, "tip": 1}, r"payload 'widens' .*with \['tip'\] besides .*id='a'"),
    "drops": (penstock.merger, lambda old, new: new.slice(1), "merger 'drops' returned 0 rows for 1 pairs.*id='a'"),
    "doubles": (penstock.merger, lambda old, new: pa.concat_tables([old, new]), "merger 'doubles' returned 2 rows.*id='a'"),
    "sleeps": (penstock.payload, sleeps, "payload 'sleeps' did not return within 1 seconds.*id='a'"),
}


@pytest.mark.parametrize("kind", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
def test_an_error_of_a_payload_keeps_its_type_and_leaves_the_table_as_it_was(
    spark: Any, table_path: str, kind: dict[str, Any]
) -> None:
    batch = rows(spark, ("a", "x", 2, 5.0, False), ("a", "x", 3, 5.0, False)).coalesce(1)  # meet one another, at the latest
    for name, (register, function, message) in WRONG.items():
        register(name)(function)
        path = f"{table_path}-{name}"  # logs have one payload
        write(rows(spark, FIRST[0]).coalesce(1), path, {**BULK, **kind, PAYLOAD: name})
        before = state_of(path)
        options = {**UPSERT, PAYLOAD: name, "penstock.payload.timeout": 1, **(IN_TASKS if name in ("raises", "sleeps") else {})}
        with pytest.raises(PayloadError, match=message):
            write(batch, path, options)
        assert state_of(path) == before


def test_the_last_line_of_a_failed_query_names_the_function_that_failed(spark: Any, table_path: str) -> None:
    penstock.payload("ours")(add_row)
    options = {**UPSERT, **MOR, PAYLOAD: "ours"}
    write(rows(spark, *FIRST).coalesce(1), table_path, {**options, OPERATION: "bulk_insert"})
    write(rows(spark, ("a", "x", 2, 5.0, False)), table_path, options)
    penstock.payload("ours")(fails)
    frame = load(spark, table_path)
    with pytest.raises(Exception, match="payload 'ours' raised KeyError") as raised:
        frame.collect()
    before_sparks_own = re.split(r"\n\s*(?:SQLSTATE|at |JVM|\n)", str(raised.value)[str(raised.value).index("Traceback") :])[0]
    said = before_sparks_own.strip().splitlines()
    assert re.fullmatch(
        r"payload 'ours' raised KeyError for key id='a', city='x' \(while reading file group \S+ of partition 'x'\)", said[-1]
    )
    assert any("in fails" in line for line in said)  # the user's own traceback comes before it
    elsewhere = f"{table_path}-copy"
    with pytest.raises(PayloadError, match=r"payload 'ours' raised KeyError for key id='a'.*while reading file group"):
        write(frame.drop(*META), elsewhere, BULK)
    assert not Path(elsewhere).exists()


def test_a_failed_compaction_leaves_its_plan_and_is_run_again(spark: Any, table_path: str) -> None:
    penstock.payload("ours")(add_row)
    options = {**UPSERT, **MOR, PAYLOAD: "ours"}
    write(rows(spark, *FIRST).coalesce(1), table_path, {**options, OPERATION: "bulk_insert"})
    write(rows(spark, ("a", "x", 2, 5.0, False)), table_path, options)
    table = penstock.Table.open(table_path, spark)
    penstock.payload("ours")(fails)
    with pytest.raises(PayloadError, match="payload 'ours' raised KeyError for key id='a'"):
        table.compact()
    penstock.payload("ours")(add_row)
    assert [commit.rows_updated for commit in table.compact()] == [1]
    assert read_rows(spark, table_path)[0] == ("a", 2, 6.0)


def test_a_table_with_an_unregistered_payload_is_read_where_nothing_is_merged(
    spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**MOR, PAYLOAD: "add_row"}
    write(rows(spark, *FIRST).coalesce(1), table_path, {**BULK, **options})
    monkeypatch.setattr(MERGE_FUNCTIONS, "registered", {})
    assert len(read_rows(spark, table_path)) == 4  # there is no log yet
    penstock.payload("add_row")(add_row)
    write(rows(spark, ("a", "x", 2, 5.0, False)), table_path, {**UPSERT, **options})
    monkeypatch.setattr(MERGE_FUNCTIONS, "registered", {})
    before = state_of(table_path)
    assert len(read_rows(spark, table_path, **{"hoodie.datasource.query.type": "read_optimized"})) == 4
    unknown = r"hoodie.compaction.payload.class.*'add_row' is not known here: register.*@penstock.payload\('add_row'\)"
    with pytest.raises(OptionError, match=unknown):
        read_rows(spark, table_path)
    with pytest.raises(OptionError, match=unknown):
        write(rows(spark, ("a", "x", 3, 5.0, False)), table_path, TRIPS)
    assert state_of(table_path) == before
    with pytest.raises(OptionError, match=unknown):
        penstock.Table.open(table_path, spark).compact()
    with pytest.raises(Unsupported, match="register your own"):
        write(rows(spark, ("a", "x", 3, 5.0, False)), table_path, {**UPSERT, PAYLOAD: "add_row"})


def test_options_that_contradict_one_another_are_refused(spark: Any, table_path: str) -> None:
    write(rows(spark, *FIRST), table_path, BULK)
    batch = rows(spark, ("a", "y", 2, 5.0, False))
    with pytest.raises(OptionError, match="say different things"):
        write(batch, table_path, {**UPSERT, MERGER: "add_columns", PAYLOAD: "add_row"})
    with pytest.raises(OptionError, match="say different things"):
        write(batch, table_path, {**UPSERT, MERGER: "add_columns", MODE: "EVENT_TIME_ORDERING"})


@pytest.mark.parametrize(("first", "then"), [("add_row", "add_columns"), ("DefaultHoodieRecordPayload", "add_row")])
def test_logs_merged_by_one_function_accept_no_rows_of_another(spark: Any, table_path: str, first: str, then: str) -> None:
    write(rows(spark, FIRST[0]), table_path, {**UPSERT, **MOR, PAYLOAD: first})
    before = state_of(table_path)
    with pytest.raises(OptionError, match=rf"{then} cannot write to .* merged by \S*{first}"):
        write(rows(spark, FIRST[0]), table_path, {**UPSERT, PAYLOAD: then})
    assert state_of(table_path) == before

"""`Table.explain_merge`: the outcome of an upsert for some keys, without writing; the write then has this outcome."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import OptionError
from penstock.registered.functions import MERGE_FUNCTIONS
from tests.table.tables import BULK, load, state_of, write
from tests.table.upserts import INDEX, MOVES, PAYLOAD, UPSERT, rows

FIRST = [("a", "x", 5, 1.0, False), ("b", "x", 5, 2.0, False), ("c", "y", 5, 3.0, False), ("d", "y", 5, 4.0, False)]
BATCH = [
    ("a", "x", 6, 10.0, False),
    ("a", "x", 7, 20.0, False),
    ("b", "x", 4, 5.0, False),
    ("c", "y", 6, None, True),
    ("e", "y", 1, 6.0, False),
    ("f", "y", 1, None, True),
    ("d", "x", 6, 7.0, False),
]


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(MERGE_FUNCTIONS, "registered", {})
    yield


def add(old: Any, new: Any) -> Any:
    return new if old is None else {**new, "fare": old["fare"] + new["fare"]} if new["fare"] != 5.0 else None


def outcomes_of(plan: Any) -> dict[str, tuple[str, float | None]]:
    return {one.key: (one.outcome.value, one.result["fare"] if one.result else None) for one in plan}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_write_does_what_its_merge_plan_said(spark: Any, table_path: str, kind: str) -> None:
    penstock.payload("add")(add)
    options = {PAYLOAD: "add"}
    write(rows(spark, *FIRST), table_path, {**BULK, **options, "hoodie.datasource.write.table.type": kind})
    write(rows(spark, ("a", "x", 6, 100.0, False)), table_path, {**UPSERT, **options})  # in a log, or not
    table, batch = penstock.Table.open(table_path, spark), rows(spark, *BATCH).coalesce(1)
    before = state_of(table_path)
    plan = table.explain_merge(batch, options=options)
    assert state_of(table_path) == before
    assert outcomes_of(plan) == {
        "a": ("update", 131.0),
        "b": ("delete", None),
        "c": ("delete", None),
        "d": ("insert", 7.0),  # in another partition
        "e": ("insert", 6.0),
        "f": ("nothing", None),
    }
    one = next(one for one in plan if one.key == "a")
    assert (one.rows, one.stored_ordering, one.incoming_ordering, one.payload, one.why) == (
        2,
        "6",
        "7",
        "add",
        "made of both rows",
    )
    assert (one.stored["fare"], one.incoming["fare"]) == (101.0, 30.0)
    table.upsert(batch, options)
    stored = {(row.id, row.city): row.fare for row in load(spark, table_path).collect()}
    assert stored == {("a", "x"): 131.0, ("d", "x"): 7.0, ("d", "y"): 4.0, ("e", "y"): 6.0}


def test_a_merge_plan_has_a_reason_for_every_outcome(spark: Any, table_path: str) -> None:
    write(rows(spark, *FIRST), table_path, BULK)
    table = penstock.Table.open(table_path, spark)
    chosen = {PAYLOAD: "DefaultHoodieRecordPayload", INDEX: "GLOBAL_SIMPLE", MOVES["GLOBAL_SIMPLE"]: "true"}
    plan = table.explain_merge(rows(spark, *BATCH), keys=["b", "d", "e", "nobody"], options=chosen)
    assert {one.key: (one.outcome.value, one.why) for one in plan} == {
        "b": ("keep", "ts of the stored row is greater: 5 > 4"),
        "d": ("move", "it is in partition 'y'"),
        "e": ("insert", "the table has no such key"),
    }
    text = str(plan)
    assert "Merge plan of trips" in text
    assert "ts of the stored row is greater: 5 > 4" in text
    assert plan.to_arrow().column("outcome").to_pylist() == [one.outcome.value for one in plan]
    assert len(table.explain_merge(rows(spark, *BATCH), keys=["nobody"])) == 0
    with pytest.raises(OptionError, match=r"give \['b'\]"):
        table.explain_merge(rows(spark, *BATCH), keys="b")


def test_keys_that_are_in_logs_alone_are_found_there(spark: Any, table_path: str) -> None:
    options = {
        INDEX: "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.num.buckets": 2,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        PAYLOAD: "PartialUpdateAvroPayload",
    }
    write(rows(spark, *FIRST), table_path, {**UPSERT, **options})
    plan = penstock.Table.open(table_path, spark).explain_merge(rows(spark, ("a", "x", 6, None, False)), options=options)
    assert outcomes_of(plan) == {"a": ("update", 1.0)}


def test_the_program_explains_the_merge_of_files(
    spark: Any, session_kind: str, table_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    if session_kind != "classic":
        pytest.skip("the program has a session of its own")
    pytest.importorskip("typer")
    from penstock.cli.main import main

    def run_program(*words: str) -> tuple[int, list[list[str]], str]:
        monkeypatch.setattr(sys, "argv", ["penstock", "explain-merge", table_path, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()], err

    monkeypatch.setenv("COLUMNS", "60")  # nothing is cut off
    write(rows(spark, *FIRST), table_path, BULK)
    before = state_of(table_path)
    rows(spark, *BATCH).coalesce(1).write.parquet(str(tmp_path / "batch.parquet"))
    code, lines, _ = run_program(
        "--batch", str(tmp_path / "batch.parquet"), "--keys", "b, e", "-o", f"{PAYLOAD}=DefaultHoodieRecordPayload"
    )
    why = "ts of the stored row is greater: 5 > 4"
    assert (code, lines[0]) == (0, ["Merge plan of trips"])
    assert lines[3:5] == [
        ["b", "x", "1", "5", "4", "keep", why, "DefaultHoodieRecordPayload"],
        ["e", "y", "1", "1", "insert", "the table has no such key", "DefaultHoodieRecordPayload"],
    ]
    (tmp_path / "rules_of_ours.py").write_text("import penstock\n\npenstock.payload('ours')(lambda old, new: None)\n")
    (tmp_path / "batch.json").write_text('{"id": "a", "city": "x", "ts": 6, "fare": 1, "_hoodie_is_deleted": false}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, lines, err = run_program("--batch", "batch.json", "--import", "rules_of_ours", "-o", f"{PAYLOAD}=ours")
    assert code == 0, err
    assert lines[3][5:] == (["delete", "the payload returns no row of the two", "ours"])
    (tmp_path / "batch.json").write_text("not one\n")
    for words, message in (
        (("--batch", "nowhere.parquet"), "OptionError --batch nowhere.parquet cannot be read"),
        (("--batch", "batch.json"), "/batch.json has lines that are not JSON"),
        (("--batch", "batch.json", "--import", "no_such_rules"), "OptionError --import no_such_rules cannot be imported"),
        (("--batch", "batch.json", "-o", "x"), "OptionError an --option argument is not key=value"),
    ):
        code, _, err = run_program(*words)
        assert (code, message in err) == (1, True), err
    assert state_of(table_path) == before

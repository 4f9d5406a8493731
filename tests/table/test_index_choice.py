"""`penstock.index=auto` names its choice and the reason; `Table.index_report` has the figures; `INMEMORY` knows only its own writes."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.errors import OptionError
from penstock.index.in_memory import forget
from tests.table.tables import BULK, snapshot, trips, write
from tests.table.upserts import INDEX, UPSERT

AUTO = {"penstock.index": "auto"}


def test_a_plan_names_the_chosen_index_and_commits_keep_its_figures(spark: Any, table_path: str, monkeypatch: Any) -> None:
    rows = [(f"k{n:03d}", "x", 1, float(n)) for n in range(60)]
    for start in range(0, 60, 10):  # six file groups, each with a range of its own
        write(trips(spark, *rows[start : start + 10]).coalesce(1), table_path, BULK)
    batch = trips(spark, ("k005", "x", 2, 1.0), ("k007", "x", 2, 1.0))
    table = penstock.Table.open(table_path)
    assert len(table.index_report()) == 0

    write(batch, table_path, {**UPSERT, **AUTO})
    monkeypatch.setattr("penstock.write.locate.choose_index._SMALL_BYTES", 0)
    plan = table.plan_upsert(batch, options=AUTO)
    assert plan.index == "BLOOM"
    assert "BLOOM was chosen: keys are ordered" in str(plan)
    write(batch, table_path, {**UPSERT, **AUTO})
    write(batch, table_path, {**UPSERT, INDEX: "SIMPLE"})

    simple, bloom, small = table.index_report()
    assert (bloom.index, bloom.files, bloom.opened, bloom.holding, bloom.compared) == ("BLOOM", 6, 1, 1, 2)
    assert bloom.false_positive_rate == 0.0
    assert bloom.why.startswith("keys are ordered")
    assert (simple.index, simple.opened, simple.compared, simple.why) == ("SIMPLE", 6, 12, "")
    assert simple.false_positive_rate == 1.0
    assert small.why.startswith("the files are small")
    assert "100.0%" in str(table.index_report())
    assert len(table.index_report(limit=1)) == 1


def test_the_in_memory_index_refuses_a_table_that_another_process_wrote(spark: Any, table_path: str) -> None:
    options = {**UPSERT, INDEX: "INMEMORY"}
    batch = trips(spark, ("a", "x", 1, 1.0))
    write(batch, table_path, {**BULK, INDEX: "INMEMORY"})
    write(batch, table_path, options)
    assert len(snapshot(spark, table_path)) == 1
    forget(table_path)  # a restart
    with pytest.raises(OptionError, match="knows what this process wrote"):
        write(batch, table_path, options)
    write(batch, table_path, {**UPSERT, INDEX: "SIMPLE"})
    write(trips(spark, ("b", "y", 1, 1.0)), table_path, options)  # of another partition
    assert len(snapshot(spark, table_path)) == 2

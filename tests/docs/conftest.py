"""What examples in documentation may name: a session, a folder, a few trips, and a table that holds them."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from tests.table.tables import trips as some_trips


@pytest.fixture
def names(spark: Any, tmp_path: Any) -> dict[str, Any]:
    """The names that an example starts with."""
    path = str(tmp_path / "trips")
    return {"penstock": penstock, "spark": spark, "path": path, "trips": three_trips(spark)}


@pytest.fixture
def names_with_table(names: dict[str, Any], tmp_path: Any) -> dict[str, Any]:
    """The same, and a table with the trips in it."""
    table = penstock.Table.create(
        tmp_path / "known", names["trips"], name="trips", record_key="id", partition_by="city", ordering="ts"
    )
    table.insert(names["trips"])
    return {**names, "table": table}


def merge_on_read_table(names: dict[str, Any], path: Any) -> penstock.Table:
    """The same trips in a merge-on-read table, one of them with a newer version in a log file."""
    table = penstock.Table.create(
        path, names["trips"], name="trips", record_key="id", partition_by="city", ordering="ts", table_type="MERGE_ON_READ"
    )
    table.insert(names["trips"])
    table.upsert(some_trips(names["spark"], ("c", "paris", 4, 4.5)))
    return table


def three_trips(spark: Any) -> Any:
    """Two trips in Berlin, one in Paris."""
    return some_trips(spark, ("a", "berlin", 1, 1.5), ("b", "berlin", 2, 2.5), ("c", "paris", 3, 3.5))

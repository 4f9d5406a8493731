"""The names that examples in documentation may use: a session, a folder, a few trips, and a table that holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock
from tests.kit.templates import Templates
from tests.table.tables import trips as some_trips


@pytest.fixture
def names(spark: Any, tmp_path: Any) -> dict[str, Any]:
    """The names that an example starts with."""
    path = str(tmp_path / "trips")
    return {"penstock": penstock, "spark": spark, "path": path, "trips": three_trips(spark)}


@pytest.fixture
def names_with_table(names: dict[str, Any], templates: Templates, tmp_path: Any) -> dict[str, Any]:
    """The names that an example starts with, and a table with the trips in it."""
    path = templates.copy("three-trips", lambda path: write_trips(names, path), tmp_path / "known")
    return {**names, "table": penstock.Table.open(path, names["spark"])}


@pytest.fixture
def merge_on_read_path(names: dict[str, Any], templates: Templates, tmp_path: Any) -> Callable[[], str]:
    """Returns the path of a merge-on-read table with the same trips, one of them with a newer version in a log file."""

    def make(path: str) -> None:
        write_trips(names, path, "MERGE_ON_READ").upsert(some_trips(names["spark"], ("c", "paris", 4, 4.5)))

    return lambda: templates.copy("three-trips-and-a-log", make, tmp_path / "mor")


def write_trips(names: dict[str, Any], path: str, table_type: str = "COPY_ON_WRITE") -> penstock.Table:
    """Create a table with the trips in it."""
    table = penstock.Table.create(
        path, names["trips"], name="trips", record_key="id", partition_by="city", ordering="ts", table_type=table_type
    )
    table.insert(names["trips"])
    return table


def three_trips(spark: Any) -> Any:
    """Return two trips in Berlin and one in Paris."""
    return some_trips(spark, ("a", "berlin", 1, 1.5), ("b", "berlin", 2, 2.5), ("c", "paris", 3, 3.5))

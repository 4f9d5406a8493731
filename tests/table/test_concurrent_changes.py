"""Queries that are planned while another process writes, cleans and archives return all rows of one moment, or raise an error."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

import penstock
from penstock.door import plan_again as recent
from penstock.door.read import open_query
from penstock.errors import OptionError, WriteConflict
from penstock.options import read_options
from penstock.read.query import parse_query
from penstock.table.state import open_table
from tests.kit.interleave import InterleavingStorage
from tests.table.tables import META, OPERATION, SIX, TRIPS, Trip, sorted_rows, trips, write

OFF = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
UPSERT = {**TRIPS, **OFF, OPERATION: "upsert"}
ONE_VERSION = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 1}
FEW = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}


def newer(number: int) -> list[Trip]:
    return [(key, city, ts + number, fare) for key, city, ts, fare in SIX]


def written(path: str) -> list[str]:
    return [i.time for i in open_table(path).timeline.writes]


@pytest.fixture
def other(spark: Any, table: str) -> Other:
    return Other(spark, table)


class Other:
    """Another process: it writes rows, cleans and archives."""

    def __init__(self, spark: Any, path: str) -> None:
        self.spark, self.path = spark, path
        self.table = penstock.Table(path, spark)

    def upsert(self, number: int) -> None:
        write(trips(self.spark, *newer(number)), self.path, UPSERT)

    def upsert_and_clean(self, number: int) -> None:
        self.upsert(number)
        assert self.table.clean(ONE_VERSION)

    def overwrite_and_clean(self) -> None:
        write(trips(self.spark, *newer(7)[:2]), self.path, {**UPSERT, OPERATION: "insert_overwrite_table"})
        assert self.table.clean(ONE_VERSION)

    def archive(self) -> None:
        assert self.table.archive({**FEW, **ONE_VERSION, "hoodie.cleaner.fileversions.retained": 9})


def read(spark: Any, path: str, *actions: Callable[[], object], **options: Any) -> Any:
    """Return the table's rows. The actions run between the reading of the timeline and the listing of folders."""
    query = parse_query([path], read_options(options))
    storage = InterleavingStorage(f"list {re.escape(path)}$", deque(actions))
    return open_query(spark, query, replace(open_table(path, query.options), storage=storage)).drop(*META)


def test_a_query_sees_a_write_whose_predecessor_is_cleaned_at_once(spark: Any, table: str, other: Other) -> None:
    assert sorted_rows(read(spark, table, partial(other.upsert_and_clean, 1))) == newer(1)


def test_a_query_sees_an_overwrite_whose_predecessors_are_cleaned_at_once(spark: Any, table: str, other: Other) -> None:
    assert sorted_rows(read(spark, table, other.overwrite_and_clean)) == newer(7)[:2]


def test_a_query_is_planned_again_until_the_table_rests_and_refused_if_it_never_does(
    spark: Any, table: str, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "_ATTEMPTS", 3)
    changes = [partial(other.upsert_and_clean, number) for number in range(1, 6)]
    assert sorted_rows(read(spark, table, *changes[:2])) == newer(2)
    with pytest.raises(WriteConflict, match=r"changed each of the 3 times .*\. Run the query again"):
        read(spark, table, *changes[2:])


def test_a_query_is_planned_once_where_cleaning_keeps_what_it_reads(spark: Any, table: str, other: Other) -> None:
    def write_and_clean() -> None:
        other.upsert(4)
        assert other.table.clean({"hoodie.cleaner.commits.retained": 2})

    for number in (1, 2):
        other.upsert(number)
    with patch.object(recent, "plan_query", wraps=recent.plan_query) as planned:
        assert sorted_rows(read(spark, table, partial(other.upsert, 3))) == newer(2)
        assert planned.call_count == 1
        assert sorted_rows(read(spark, table, write_and_clean)) == newer(3)
        assert planned.call_count == 2


def test_time_travel_to_a_commit_that_is_cleaned_during_planning_is_refused(spark: Any, table: str, other: Other) -> None:
    (first,) = written(table)
    other.upsert(1)
    with pytest.raises(OptionError, match="Cleaner cleaned up the timestamp of interest"):
        read(spark, table, lambda: other.table.clean(ONE_VERSION), **{"as.of.instant": first})


def test_an_incremental_query_whose_files_are_cleaned_during_planning_returns_later_changes(
    spark: Any, table: str, other: Other
) -> None:
    incremental = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "000"}
    assert sorted_rows(read(spark, table, partial(other.upsert_and_clean, 1), **incremental)) == newer(1)


def test_a_commit_that_is_archived_during_planning_is_not_missed(spark: Any, table: str, other: Other) -> None:
    """The schema of the oldest file was to be read there."""
    first, *_ = written(table)
    for number in range(1, 5):
        write(trips(spark, ("z", "rome", number, 1.0)).selectExpr("*", "1 as more"), table, UPSERT)
    rows = sorted_rows(read(spark, table, other.archive))
    assert first not in written(table)
    assert rows == [*((*row, None) for row in SIX), ("z", "rome", 4, 1.0, 1)]


def test_a_replace_commit_that_is_archived_during_planning_is_not_missed(spark: Any, table: str, other: Other) -> None:
    """The file groups that it took out were to be read there."""
    other.overwrite_and_clean()
    _, replaced = written(table)
    for number in range(1, 5):
        write(trips(spark, ("z", "rome", number, 1.0)), table, UPSERT)
    rows = sorted_rows(read(spark, table, other.archive))
    assert replaced not in written(table)
    assert rows == [*newer(7)[:2], ("z", "rome", 4, 1.0)]

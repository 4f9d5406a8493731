"""Which slices answer an incremental query, of tables in memory: what is listed and read, archived writes, holes, conditions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from penstock import options as o
from penstock.errors import ChangesLost, OptionError
from penstock.options import Options
from penstock.read.commit_time_filter import split_conditions
from penstock.read.incremental import plan_incremental
from penstock.read.plan import QueryPlan
from penstock.read.query import Query
from penstock.read.row_readers import keep_changed_rows
from penstock.services.archive.run import archive
from penstock.timeline.history import InstantRange, list_writes
from penstock.timeline.instant import parse_bound_time
from tests.unit.services.histories import CALLS, History, at

FEW = {"keep_min_commits": 2, "keep_max_commits": 3, "cleaner_policy": "KEEP_LATEST_FILE_VERSIONS"}


def planned(history: History, begin: str, end: str | None = None, **options: str) -> QueryPlan:
    given = {f"hoodie.{name.replace('_', '.')}": value for name, value in options.items()}
    query = Query("/t", "incremental", Options(given), since=begin, until=end)
    return plan_incremental(query, replace(history.table(), options=query.options))


def files(plan: QueryPlan) -> list[tuple[str, str]]:
    return sorted((file_slice.file_id, file_slice.base_instant) for file_slice in plan.all_slices)


def test_only_partitions_of_the_range_are_listed() -> None:
    history = History().commit(1, ["p/a-0", "q/b-0"]).commit(2, ["p/a-0"]).commit(3, ["q/b-0"])
    history.calls("list")
    plan = planned(history, at(1), at(2))
    assert (files(plan), history.calls("list")) == ([("a-0", at(2))], ["/t/p"])
    assert (plan.changes, plan.written_at) == (InstantRange(at(1), at(2)), (at(2),))
    assert planned(history, at(1), at(9)).changes == InstantRange(at(1), at(3)), "what comes later is another query's"
    assert planned(history, at(3)).slices == {}


def test_archived_writes_are_read_only_if_the_range_reaches_the_archive() -> None:
    history = History().commits(range(1, 7), "p/a-0").commit(7, ["q/b-0"])
    assert archive(history.table(**FEW))
    table = history.table()
    start = table.timeline.start
    assert start is not None
    assert start > at(3)
    times = [w.time for w in list_writes(table.storage, "/t", table.timeline, InstantRange(at(1), at(9)))]
    assert times == [at(n) for n in range(2, 8)]
    (first,) = list_writes(table.storage, "/t", table.timeline, InstantRange("0", at(1)))
    assert [s.path for s in first.metadata.stats] == [f"p/a-0_0-0-0_{at(1)}.parquet"]
    reaching_back = planned(history, at(1), at(3))
    assert (files(reaching_back), reaching_back.written_at) == ([("a-0", at(3))], ())
    for begin, is_read in ((at(1), True), (start, False)):
        CALLS.clear()
        planned(history, begin)
        assert any("archived" in path for _, path in CALLS[history.storage.name]) is is_read


def test_files_of_unknown_writes_are_an_error() -> None:
    history = History().commits(range(1, 6), "p/a-0")
    history.file(f"q/c-0_0-0-0_{at(0)}.parquet")
    with pytest.raises(ChangesLost, match=f"files of {at(0)}, of which neither its timeline, which begins at {at(1)}"):
        planned(history, "000")
    assert files(planned(history, "000", datasource_read_incr_fallback_fulltablescan_enable="true")) == [
        ("a-0", at(5)),
        ("c-0", at(0)),
    ]
    assert files(planned(history, at(0))) == [("a-0", at(5))], "they are older than the range"


@pytest.mark.parametrize(("hole", "is_one"), [(2, True), (4, False), (0, False)])
def test_a_pending_write_is_a_hole_if_it_is_in_the_range_before_a_completed_one(hole: int, is_one: bool) -> None:
    history = History().commit(1, ["p/a-0"]).commit(3, ["p/a-0"])
    history.instant(f"{at(hole)}.commit.requested", b"")
    if is_one:
        with pytest.raises(OptionError, match=f"Found hollow commit: '{at(hole)}'"):
            planned(history, at(0))
        blocked = planned(history, at(0), read_timeline_holes_resolution_policy="BLOCK")
        assert (files(blocked), blocked.changes) == ([("a-0", at(1))], InstantRange(at(0), at(1)))
    else:
        assert files(planned(history, at(0))) == [("a-0", at(3))]


def test_the_kernel_keeps_rows_of_the_range() -> None:
    rows = pa.table({"_hoodie_commit_time": ["1", "2", None, "3", "4"], "n": [1, 2, 3, 4, 5]})
    assert keep_changed_rows(rows, InstantRange("1", "3"))["n"].to_pylist() == [2, 4]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (" a > 1 ", ["a > 1"]),
        ("a > 1, b < 2,", ["a > 1", "b < 2"]),
        ("a in (1, 2), b = 'x, y'", ["a in (1, 2)", "b = 'x, y'"]),
        ('f(g(a, b), c) = 1,`odd,name` = "("', ["f(g(a, b), c) = 1", '`odd,name` = "("']),
    ],
)
def test_conditions_are_split_at_commas_outside_parentheses_and_quotes(text: str, parts: list[str]) -> None:
    assert split_conditions(text) == parts


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("000", "000"),
        (" 20240102030405006 ", "20240102030405006"),
        ("20240102030405", "20240102030405"),
        ("2024-01-02 03:04:05", "20240102030405999"),
        ("2024-01-02 03:04:05.006", "20240102030405006"),
        ("2024-01-02", "20240102000000000"),
    ],
)
def test_a_bound_of_a_range_is_digits_or_a_time(text: str, bound: str) -> None:
    assert parse_bound_time(text, o.BEGIN_INSTANT.key) == bound

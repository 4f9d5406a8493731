"""The health of a table: its numbers, and when they come with a suggestion."""

from __future__ import annotations

from datetime import datetime

from penstock.filegroup.names import log_file_name
from penstock.services.health import Finding, check_health
from penstock.timeline.clean_file import CleanResult, write_clean_result
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan, ClusteringSlice, write_clustering_plan
from tests.unit.services.histories import History, at

NOW = datetime(2024, 1, 31)


def findings(history: History, **options: object) -> dict[str, Finding]:
    return {one.measure: one for one in check_health(history.table(**options), NOW)}


def test_a_small_young_table_is_fine() -> None:
    found = findings(History().commit(1, ["a/g-0", "a/h-0"]))
    assert all(one.is_fine for one in found.values())
    assert {name: one.value for name, one in found.items()} == {
        "small files": "2 of 2",
        "rows per file": "1",
        "log to base size": "no logs: a copy-on-write table",
        "pending": "nothing",
        "days since the last clean": "never cleaned",
        "timeline": "1 instant; nothing archived",
    }


def test_each_bad_number_comes_with_a_suggestion() -> None:
    history = History("MERGE_ON_READ").commits(range(1, 30), *(f"p/{n}-0" for n in range(12)))
    history.file(f"p/{log_file_name('1-0', at(29), 1, '0-0-0')}", b"x" * 100)
    history.instant(f"{at(40)}.deltacommit.requested", b"")
    history.instant(f"{at(41)}.rollback.requested", b"")
    history.instant(f"{at(29)}.savepoint.inflight", b"")
    found = findings(history, keep_max_commits=14, keep_min_commits=12)
    assert (found["small files"].value, found["rows per file"].value) == ("12 of 12", "1")
    assert found["log to base size"].value == "100 B to 12 B (833%)"
    assert found["pending"].value == "1 rollback, 1 savepoint, 1 write"
    for measure, words in (
        ("small files", "run cluster(), write more rows at once"),
        ("rows per file", "use fewer partitions"),
        ("log to base size", r"run compact()"),
        ("pending", "the next write rolls it back"),
        ("pending", "or let go of it with delete_savepoint()"),
        ("days since the last clean", "run clean()"),
        ("timeline", "run archive()"),
    ):
        assert words in found[measure].suggestion, measure
    history.instant(f"{at(2)}.clean", write_clean_result(CleanResult(at(2), at(1), at(1), {})))
    found = findings(history)
    assert (found["days since the last clean"].value, found["days since the last clean"].is_fine) == ("29", False)


def test_a_pending_clustering_is_reported_with_a_suggestion() -> None:
    history = History().commit(1, ["p/a"])
    plan = ClusteringPlan((ClusteringGroup((ClusteringSlice("p", "a", "a_0-0-0_1.parquet"),)),))
    history.instant(f"{at(2)}.replacecommit.requested", write_clustering_plan(plan, "/t"))
    found = findings(history)["pending"]
    assert (found.value, found.suggestion.split(":")[0]) == ("1 clustering", "run cluster()")

"""The cost of planning a service: each folder is listed once, each commit read once, and work is proportional to file groups.

Calls are counted, not seconds, so that the figures are the same on every machine. `python -m bench.planning services` times it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from penstock.filegroup.names import log_file_name
from penstock.services.archive.run import choose_instants
from penstock.services.clean.schedule import schedule_clean
from penstock.services.clustering.service import CLUSTERING
from penstock.services.compaction.service import COMPACTION
from penstock.services.health import check_health
from penstock.services.planned import schedule
from penstock.services.savepoint import create_savepoint
from penstock.services.ttl import expired_partitions
from penstock.table.state import TableState
from tests.unit.services.histories import CALLS, History, at

PARTITIONS = 5
Plan = Callable[[TableState], object]


def make_history(groups: int, kind: str = "MERGE_ON_READ") -> History:
    """Return a table with the given number of file groups over the partitions: two versions of each, a log on top of the second."""
    history = History(kind)
    names = [f"p{number % PARTITIONS}/f{number}-0" for number in range(groups)]
    write = "deltacommit" if kind == "MERGE_ON_READ" else "commit"
    history.commit(1, names, action=write).commit(2, names, action=write)
    if kind == "MERGE_ON_READ":
        for name in names:
            path, _, file_id = name.rpartition("/")
            history.file(f"{path}/{log_file_name(file_id, at(2), 1, '0-0-0')}")
    schema = {"schema": '{"type": "record", "name": "t", "fields": [{"name": "id", "type": "string"}]}'}
    for number in (3, 4):
        history.commit(number, names[:1], action=write, extra=schema)
    return history


def opened(history: History) -> TableState:
    return history.table(
        cleaner_commits_retained=1,
        keep_min_commits=2,
        keep_max_commits=3,
        compact_inline_trigger_strategy="TIME_ELAPSED",
        partition_ttl_strategy_days_retain=1,
    )


PLANS: dict[str, Plan] = {
    "clean": lambda table: schedule_clean(table, due=True),
    "compaction": lambda table: schedule(table, COMPACTION, due=True),
    "clustering": lambda table: schedule(table, CLUSTERING, due=True),
    "savepoint": create_savepoint,
    "health": check_health,
    "lifetime": expired_partitions,
    "archive": choose_instants,
}
#: Listings of the folders outside of `.hoodie`: the table's own and one of each partition.
LISTED = dict.fromkeys(PLANS, 1 + PARTITIONS)
#: Commits tell cleaning which partitions to look at.
LISTED |= {"clean": PARTITIONS, "archive": 0}


@pytest.mark.parametrize("name", PLANS)
def test_every_folder_is_listed_once_however_many_file_groups_there_are(name: str) -> None:
    for groups in (20, 60):
        history = make_history(groups)
        table = opened(history)
        CALLS.pop(history.storage.name, None)
        result = PLANS[name](table)
        assert result, name
        noted = CALLS.pop(history.storage.name, [])
        listed = [path for what, path in noted if what == "list" and "/.hoodie" not in path]
        assert len(listed) == LISTED[name], listed
        read = Counter(path for what, path in noted if what == "read" and path.endswith("commit"))
        assert max(read.values(), default=0) <= 2, read  # once for the schema, once for what it did
        assert [path for what, path in noted if what == "read" and "/.hoodie/" not in path] == []


@pytest.mark.parametrize("name", PLANS)
def test_planning_cost_grows_in_proportion_to_file_groups(name: str) -> None:
    """Twice as many file groups are at most about twice as many calls of functions."""
    small, large = (calls_of(PLANS[name], opened(make_history(groups))) for groups in (150, 300))
    assert large < 2.3 * small, (small, large)


def calls_of(plan: Plan, table: TableState) -> int:
    """Return how many functions are called, those of C too."""
    count = 0

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        plan(table)
    finally:
        sys.setprofile(before)
    return count


def test_replace_commits_of_one_partition_list_it_once() -> None:
    history = History().commits(range(1, 3), "p/a", "q/b")
    for number in range(3, 9):
        history.commit(number, [f"p/r{number}"], action="replacecommit", replaced={"p": (f"gone{number}",)})
    table = history.table(keep_min_commits=2, keep_max_commits=3, cleaner_commits_retained=1)
    history.calls()
    assert len(choose_instants(table)) > 3
    assert history.calls("list") == ["/t/p"]


def test_the_script_that_times_it_makes_a_table_that_all_services_plan_for(tmp_path: Path) -> None:
    from bench.planning import forget, make_table, service_plans

    path = str(make_table(tmp_path / "t", groups=12, partitions=3))
    for name, plan in service_plans(path).items():
        found = plan()
        assert found, name
        forget(path, found)

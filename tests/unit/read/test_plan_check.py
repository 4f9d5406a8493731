"""Whether a plan still holds when folders are listed, from what the timeline shows before and after."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from penstock.options import Options
from penstock.read.plan import QueryPlan
from penstock.read.plan_check import still_holds
from penstock.read.query import Query
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.clean_file import CleanPlan, write_clean_plan
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import load_timeline


@pytest.mark.parametrize(
    ("before", "now", "as_of", "holds"),
    [
        (["1.commit"], ["1.commit"], None, True),
        ([], ["1.commit"], None, True),
        (["1.commit"], ["1.commit", "2.commit"], None, True),
        (["1.commit"], ["1.commit", "9.clean.requested"], None, True),
        (["1.commit"], ["1.commit", "2.commit", "9.clean.requested"], None, False),
        (["1.commit"], ["1.commit", "2.commit", "9.clean.requested", "9.clean"], None, False),
        (["1.commit", "9.clean.requested"], ["1.commit", "2.commit", "9.clean.requested"], None, True),
        (["1.commit", "3.commit"], ["3.commit", "4.commit"], None, True),
        (["1.commit", "3.commit"], ["1.commit", "4.commit"], None, False),
        (["1.commit"], ["7.commit"], None, False),
        (["1.commit"], ["1.commit", "2.commit", "9.clean.requested=1"], None, True),
        (["1.commit"], ["1.commit", "2.commit", "9.clean.requested=2"], None, False),
        (["1.commit", "3.commit"], ["1.commit", "2.commit", "3.commit", "9.clean.requested=2"], None, True),
        (["1.commit", "3.commit"], ["1.commit", "2.commit", "3.commit", "9.clean.requested=3"], None, False),
        (["1.commit", "3.commit"], ["1.commit", "3.commit", "9.clean.requested=3"], "1", False),
        (["1.commit", "3.commit"], ["1.commit", "3.commit", "9.clean.requested=1"], "1", True),
        (["1.commit", "3.commit"], ["1.commit", "3.commit", "9.clean.requested"], "1", False),
    ],
)
def test_a_plan_holds_unless_a_clean_may_have_deleted_what_it_reads(
    before: Sequence[str], now: Sequence[str], as_of: str | None, holds: bool
) -> None:
    """A name `9.clean.requested=3` is of a clean that keeps all files since 3; without a time it goes by versions."""
    storage = MemoryStorage(uuid.uuid4().hex)
    put(storage, before)
    table = TableState(storage, "/t", TableConfig({}), Options({}), load_timeline(storage, "/t"))
    storage.delete_tree("/t")
    put(storage, now)
    assert still_holds(QueryPlan(table, Query("/t", "snapshot", Options({}), as_of), None, {})) is holds


def put(storage: MemoryStorage, names: Sequence[str]) -> None:
    for name in names:
        file, _, kept = name.partition("=")
        earliest = Instant(kept, Action.COMMIT, State.COMPLETED) if kept else None
        storage.write_new(f"/t/.hoodie/{file}", write_clean_plan(CleanPlan("KEEP_LATEST_COMMITS", earliest=earliest), "/t"))

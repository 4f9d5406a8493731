"""The registry of services: which are due for a table, and a small clustering without Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.door.services import SERVICES, make_stages, needs_spark, services_for
from penstock.errors import CorruptFile
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.clustering.service import CLUSTERING
from penstock.services.planned import schedule
from penstock.table.state import TableState, open_table
from tests.kit.plain import pending, plain_rows
from tests.table.handmade import HandMade

NOTHING: Any = None
ASYNC = {"hoodie.clustering.async.enabled": "true", "hoodie.clustering.async.max.commits": "2"}
ROWS = [("a", "berlin", 5, 1.0), ("b", "berlin", 3, 2.0), ("c", "berlin", 4, 3.0)]


@pytest.fixture
def made(tmp_path: Path) -> HandMade:
    """A copy-on-write table of one commit."""
    table = HandMade(tmp_path / "t", properties={"hoodie.table.type": "COPY_ON_WRITE"})
    return table.base(1, "berlin", *ROWS[:2], group="one").instant(1, "commit")


def opened(made: HandMade, options: dict[str, str] | None = None) -> TableState:
    return open_table(str(made.path), read_options(options or {}))


def looking(table: TableState) -> list[str]:
    return [service.name for service in services_for(table)]


def cluster(table: TableState) -> str | None:
    return CLUSTERING.run_due(NOTHING, table, Stages("", "off"))


def test_clustering_is_due_if_a_plan_is_pending_or_the_options_ask_for_it(made: HandMade) -> None:
    assert (looking(opened(made)), needs_spark(opened(made))) == (["clean", "archive"], False)
    assert schedule(opened(made), CLUSTERING, due=True) is not None
    assert (looking(opened(made)), needs_spark(opened(made))) == (["clean", "archive", "cluster"], True)
    assert (cluster(opened(made)), pending(made.path)) == ("1 plans run", [])
    assert (cluster(opened(made)), looking(opened(made))) == (None, ["clean", "archive"])


def test_a_clustering_is_planned_after_the_configured_number_of_commits(made: HandMade) -> None:
    assert "cluster" in looking(opened(made, ASYNC))
    assert cluster(opened(made, ASYNC)) is None
    made.base(2, "berlin", ROWS[2], group="two").instant(2, "commit")
    assert cluster(opened(made, ASYNC)) == "1 plans run"
    assert (plain_rows(made.path), pending(made.path)) == (ROWS, [])
    assert cluster(opened(made, ASYNC)) is None  # no commit since


def test_a_torn_plan_is_an_error_of_the_service_that_runs_it(made: HandMade) -> None:
    instant = schedule(opened(made), CLUSTERING, due=True)
    assert instant is not None
    file = made.path / ".hoodie" / instant.file_name
    file.write_bytes(file.read_bytes()[:-30])
    assert "cluster" in looking(opened(made))
    with pytest.raises(CorruptFile, match="cannot be read as the plan of a clustering"):
        cluster(opened(made))


SHOWN = {
    "hoodie.cleaner.fileversions.retained": "1",
    "hoodie.keep.min.commits": "1",
    "hoodie.keep.max.commits": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.clustering.async.enabled": "true",
    "hoodie.clustering.async.max.commits": "1",
    "hoodie.clustering.plan.strategy.partition.selected": "berlin",
    "hoodie.partition.ttl.inline": "true",
    "hoodie.partition.ttl.strategy.days.retain": "1",
    "penstock.progress": "on",
}


def test_every_service_shows_what_it_is_doing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = HandMade(tmp_path / "t").base(1, "berlin", *ROWS[:2]).base(1, "paris", ROWS[2]).instant(1)
    for number in (2, 3):
        made.log(1, "berlin", number - 1, made.rows(number, "berlin", ROWS[number - 2])).instant(number)
    doing = {
        "join logs": "joining the logs of 1 file group",
        "compact": "compacting 1 file group",
        "clean": "deleting 4 old files",
        "cluster": "clustering 1 file group",
        "archive": r"archiving (1 instant|\d instants)",
        "old partitions": "finding partitions older than 1 day",
    }
    services = {service.name: service for service in SERVICES}
    assert services.keys() == doing.keys() | {"roll back failed writes", "commit notices"}  # which show no progress
    for name, words in doing.items():
        table = opened(made, SHOWN)
        title = services[name].title
        assert services[name].run_due(NOTHING, table, make_stages(title, table, NOTHING)), name
        assert re.search(f"{title} trips +{words} +[0-9.]+ s", capfd.readouterr().err), name


def test_compaction_is_due_for_merge_on_read_tables_only(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t").base(1, "berlin", *ROWS).instant(1)
    assert looking(opened(made, {"hoodie.log.compaction.inline": "true"})) == ["clean", "archive", "compact", "join logs"]

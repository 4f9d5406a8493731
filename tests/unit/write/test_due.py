"""Which services are looked at on their own, and what a clustering among them does, without Spark."""

from __future__ import annotations

from pathlib import Path

from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.clustering.schedule import schedule_clustering
from penstock.table import TableState, open_table
from penstock.write.due import needs_spark, services_for
from tests.kit.plain import pending, plain_rows
from tests.table.handmade import HandMade

ROWS = [("a", "berlin", 5, 1.0), ("b", "berlin", 3, 2.0)]
INLINE = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


def names(table: TableState) -> list[str]:
    return [service.name for service in services_for(table)]


def run(table: TableState, name: str) -> str | None:
    (service,) = (service for service in services_for(table) if service.name == name)
    return service.run(None, table, Stages("", "off"))


def test_clusterings_that_wait_are_run_and_new_ones_planned_only_if_the_options_ask_for_it(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", properties={"hoodie.table.type": "COPY_ON_WRITE"})
    made.base(1, "berlin", ROWS[0], group="one").base(1, "berlin", ROWS[1], group="two").instant(1, "commit")

    def opened(**options: str) -> TableState:
        return open_table(str(made.path), read_options(options))

    assert (names(opened()), needs_spark(opened())) == (["clean", "archive"], False)
    schedule_clustering(opened(), due=True)
    assert (names(opened()), needs_spark(opened())) == (["clean", "archive", "cluster"], True)
    assert run(opened(), "cluster") == "1 plans run"
    assert (names(opened()), pending(made.path)) == (["clean", "archive"], [])
    assert run(opened(**INLINE), "cluster") is None  # no commit was made since
    assert plain_rows(made.path) == ROWS


def test_compaction_is_for_tables_with_logs(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t").base(1, "berlin", *ROWS).instant(1)
    table = open_table(str(made.path), read_options({"hoodie.log.compaction.inline": "true"}))
    assert names(table) == ["clean", "archive", "compact", "join logs"]

"""A writer that stood still for so long that another one rolled it back, before its tasks ran."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import WriteConflict
from penstock.workers.runner import Runner
from tests.kit.plain import orphans, pending
from tests.table.tables import OPERATION, SIX, TRIPS, snapshot, trips, write
from tests.table.upserts import IN_TASKS, ON_DRIVER

OPTIONS = {**TRIPS, OPERATION: "upsert"}


@pytest.mark.parametrize("where", [ON_DRIVER, IN_TASKS], ids=["driver", "tasks"])
def test_a_writer_whose_staged_rows_were_rolled_back_ends_in_a_conflict(
    spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch, where: dict[str, Any]
) -> None:
    """Its tasks fail because their files are gone, and their errors do not say why."""
    write(trips(spark, *SIX), table_path, OPTIONS)
    other = trips(spark, ("a", "berlin", 8, 8.5))
    collect = Runner.collect

    def stand_still(self: Runner, *arguments: Any) -> Any:
        monkeypatch.setattr(Runner, "collect", collect)
        (heartbeat,) = Path(table_path, ".hoodie", ".heartbeat").iterdir()
        os.utime(heartbeat, (1, 1))
        write(other, table_path, OPTIONS)
        return collect(self, *arguments)

    monkeypatch.setattr(Runner, "collect", stand_still)
    with pytest.raises(WriteConflict, match="another writer took this write for dead and rolled it back: .*Run the write again"):
        write(trips(spark, ("b", "berlin", 9, 9.5)), table_path, {**OPTIONS, **where})
    assert snapshot(spark, table_path) == [("a", "berlin", 8, 8.5), *SIX[1:]]
    assert (pending(table_path), orphans(table_path)) == ([], [])

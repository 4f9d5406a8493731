"""Savepoints and restores across engines: each restores a table to the savepoint of the other, and both continue to write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.interop.test_services import OFF, Sides
from tests.kit.oracle import Oracle
from tests.table.tables import timeline

pytestmark = pytest.mark.oracle

METADATA = "hoodie.metadata.enable"


@pytest.fixture
def hudi(hudi015: Oracle) -> Iterator[Oracle]:
    """Hudi without its metadata table, which cannot be restored to a time before it was created."""
    hudi015.sql(f"SET {METADATA}=false")
    yield hudi015
    hudi015.sql(f"RESET {METADATA}")


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_each_engine_restores_a_table_to_a_savepoint_of_the_other(kind: str, hudi: Oracle, spark: Any, table_path: str) -> None:
    sides, path = Sides(hudi, spark), table_path
    made = {**OFF, "hoodie.datasource.write.table.type": kind, "hoodie.compact.inline": "false"}
    for number in (1, 2):
        sides.write("penstock", path, number, made)
    table = penstock.Table.open(path, spark)
    saved = table.savepoint(user="me", comment="ours").instant
    assert [row["savepoint_time"] for row in hudi.sql(f"CALL show_savepoints(path => '{path}')")] == [saved]
    sides.write("hudi", path, 3, made)
    if kind == "MERGE_ON_READ":
        table.compact()
    sides.write("penstock", path, 4, made)
    hudi.sql(f"CALL rollback_to_savepoint(path => '{path}', instant_time => '{saved}')")
    sides.check(path, 2)
    table.delete_savepoint(saved)
    assert hudi.sql(f"CALL show_savepoints(path => '{path}')") == []
    sides.write("penstock", path, 5, made)
    sides.check(path, 5)

    hudi.sql(f"CALL create_savepoint(path => '{path}', user => 'you', comments => 'theirs')")
    (theirs,) = table.savepoints()
    assert (theirs.user, theirs.comment, theirs.files > 0) == ("you", "theirs", True)
    sides.write("penstock", path, 6, made)
    if kind == "MERGE_ON_READ":
        hudi.sql(f"CALL run_compaction(op => 'run', path => '{path}', options => 'hoodie.compact.inline.max.delta.commits=1')")
    sides.write("hudi", path, 7, made)
    assert table.restore(theirs).files_deleted > 0
    sides.check(path, 5)
    sides.write("hudi", path, 8, made)
    sides.check(path, 8)
    restores = [name for name in timeline(Path(path)) if name.endswith(".restore")]
    assert len(restores) == 2
    assert [i.time for i in hudi.commits(path)][-1] > restores[-1]

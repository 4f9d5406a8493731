"""Real Hudi 0.15 reads, writes to and compacts a merge-on-read table with `penstock.deletes.follow.ordering=true`.

Hudi does not know the option. By its own rule a delete in a log removes the stored row, whatever the ordering values, so the two
engines find different rows in one log. Both results are asserted exactly. A compaction by either engine writes the rows of its
own rule to the base file; then both find these rows.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.interop.sides import INDEX, OPERATION, TRIPS, Penstock, Row, deletable_trips, trips
from tests.kit.oracle import Oracle
from tests.table.tables import properties

pytestmark = pytest.mark.oracle

OPTION = "penstock.deletes.follow.ordering"
MOR = {
    **TRIPS,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
    INDEX: "SIMPLE",
}
UPSERT = {**MOR, OPERATION: "upsert"}
DELETE = {**MOR, OPERATION: "delete"}
COMPACT = {**UPSERT, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
KEYS = (
    *("late", "gone", "tie", "back", "again", "row_late", "op_late", "op_gone"),
    *("their_late", "their_gone", "their_row", "their_op", "mixed", "still"),
)
#: What both rules leave of the log that Penstock wrote, and of the log with the blocks that Hudi added.
SHARED = {"again": 30, "row_late": 15, "still": 10}
SHARED_LATER = {**SHARED, "late": 12, "their_row": 30}
#: Penstock ignores late deletes, also those in Hudi's blocks, and an older row after a delete. Hudi's delete operation writes no
#: ordering values, so it deletes in any case.
OURS_LATER = {**SHARED_LATER, "op_late": 10, "their_late": 10}
#: In Hudi every delete deletes, and an older row after a delete brings the stored row back.
THEIRS_LATER = {**SHARED_LATER, "back": 10, "mixed": 10}


def change(key: str, ts: int, *, deleted: bool = False) -> Row:
    return key, "x", ts, float(ts), deleted


def found_by(side: Penstock | Oracle, path: Path) -> dict[str, int]:
    """Return the ordering value of each key in a snapshot."""
    rows: list[dict[str, Any]] = side.read(path).select(["id", "ts"]).to_pylist()
    found = {row["id"]: row["ts"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.fixture
def our_log(us: Penstock, tmp_path: Path) -> Path:
    """A table with each key at 10, and three logs of Penstock: deletes and rows with lesser and greater ordering values."""
    path = tmp_path / "shared"
    us.write(path, deletable_trips(*(change(key, 10) for key in KEYS)), {**MOR, OPTION: "true", OPERATION: "bulk_insert"})
    deleted = {"late": 5, "gone": 20, "tie": 10, "back": 20, "again": 20, "mixed": 20}
    deletes = [change(key, ts, deleted=True) for key, ts in deleted.items()]
    us.write(path, deletable_trips(*deletes, change("row_late", 15)), UPSERT)
    us.write(path, deletable_trips(change("back", 3), change("again", 30), change("row_late", 12, deleted=True)), UPSERT)
    us.write(path, trips(("op_late", "x", 5, 0.0), ("op_gone", "x", 20, 0.0)), DELETE)
    return path


def test_hudi_reads_and_writes_a_table_whose_deletes_follow_the_ordering(
    us: Penstock, hudi015: Oracle, our_log: Path, tmp_path: Path
) -> None:
    untouched = {key: 10 for key in KEYS if key.startswith("their_")}
    assert found_by(us, our_log) == {**SHARED, **untouched, "late": 10, "op_late": 10}
    assert found_by(hudi015, our_log) == {**SHARED, **untouched, "back": 10}

    deletes = [change(key, ts, deleted=True) for key, ts in (("their_late", 5), ("their_gone", 20), ("their_row", 5))]
    hudi015.write(our_log, deletable_trips(*deletes, change("mixed", 3)), UPSERT)
    hudi015.write(our_log, deletable_trips(change("their_row", 30), change("late", 12)), UPSERT)
    hudi015.write(our_log, trips(("their_op", "x", 5, 0.0)), DELETE)
    assert found_by(us, our_log) == OURS_LATER
    assert found_by(hudi015, our_log) == THEIRS_LATER
    assert properties(our_log)[OPTION] == "true"

    compacted_by_hudi = tmp_path / "compacted"
    shutil.copytree(our_log, compacted_by_hudi)
    assert penstock.Table.open(our_log, us.spark).compact()
    assert found_by(us, our_log) == OURS_LATER
    assert found_by(hudi015, our_log) == OURS_LATER
    hudi015.write(compacted_by_hudi, deletable_trips(change("still", 11)), COMPACT)
    assert found_by(us, compacted_by_hudi) == {**THEIRS_LATER, "still": 11}
    assert found_by(hudi015, compacted_by_hudi) == {**THEIRS_LATER, "still": 11}

    # The option outlives Hudi's writes and its compaction.
    us.write(compacted_by_hudi, deletable_trips(change("still", 5, deleted=True)), UPSERT)
    assert found_by(us, compacted_by_hudi) == {**THEIRS_LATER, "still": 11}
    without_still = {key: ts for key, ts in THEIRS_LATER.items() if key != "still"}
    assert found_by(hudi015, compacted_by_hudi) == without_still

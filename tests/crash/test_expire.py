"""A fault at any storage call of expiring partitions leaves the partition or deletes it, and a second run finishes the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.door.expire import expire_partitions
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.file_check import check_files
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.table.state import open_table
from tests.crash.every_call import CRASHES, ERRORS, Rehearsal, calls_in_one_order
from tests.crash.scenes import HEARTBEATS_EXPIRED
from tests.crash.test_clean_and_archive import ROWS, make_table
from tests.kit.plain import leftovers, pending, plain_rows

OPTIONS = {
    **HEARTBEATS_EXPIRED,
    "hoodie.partition.ttl.strategy.days.retain": 1,
    "hoodie.partition.ttl.strategy.partition.selected": "berlin",
}
LEFT = ROWS[1:]


def expire(path: str) -> None:
    expire_partitions(roll_back_failed(open_table(path, read_options(OPTIONS))), Stages("", "off"))


def check(path: Path, what: str) -> None:
    """Check that the partition exists or not, and that after the next run it and everything temporary is deleted."""
    assert plain_rows(path) in (ROWS, LEFT), what
    expire(str(path))
    assert (plain_rows(path), pending(path), leftovers(path)) == (LEFT, [], []), what
    assert check_files(open_table(str(path))) == [], what


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fault_at_any_call_leaves_what_a_second_run_finishes(tmp_path: Path) -> None:
    make_table(tmp_path / "made")
    rehearsal = Rehearsal(tmp_path / "made", tmp_path, expire, check, calls_min=6)
    with calls_in_one_order():
        for fault in (*CRASHES, *ERRORS):
            rehearsal.fail_at_every_call(fault)

"""A change whose commits were undone, or that may have missed a commit, is not published."""

from __future__ import annotations

import pytest

from penstock.commit.conflicts import check_not_restoring
from penstock.commit.undone_commits import check_still_there
from penstock.errors import WriteConflict
from penstock.formats.avro.container import write_container
from penstock.options import Options
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.timeline import Timeline

TABLE = TableState(MemoryStorage("undone"), "/t", TableConfig({}), Options({}))
#: A change was planned on these: 2 is pending.
PLANNED_ON = ("1.commit", "2.commit.requested", "3.commit")


def timeline(*names: str) -> Timeline:
    return Timeline.from_names(names)


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (("1.commit", "2.commit.requested", "3.commit", "5.commit"), None),
        (("1.commit", "2.commit", "3.commit"), None),
        (("1.commit", "3.commit"), None),  # 2 was rolled back
        (("3.commit", "5.commit"), "write 2 of /t was under way"),  # 2 may be archived, as 1 is
        (("1.commit", "1.savepoint", "3.commit", "3.savepoint"), "write 2 of /t was under way"),
        (("2.commit", "3.commit", "5.commit"), None),  # 1 is archived
        (("1.commit", "2.commit.requested"), "commit 3 of /t was rolled back"),
        (("1.commit", "2.commit.requested", "3.commit.requested"), "commit 3 of /t was rolled back"),
        (("1.commit", "1.savepoint"), "commit 3 of /t was rolled back"),
    ],
)
def test_a_commit_that_was_read_is_still_there_and_none_was_missed(now: tuple[str, ...], message: str | None) -> None:
    if message is None:
        check_still_there(TABLE, timeline(*PLANNED_ON), timeline(*now))
        return
    with pytest.raises(WriteConflict, match=message):
        check_still_there(TABLE, timeline(*PLANNED_ON), timeline(*now))


@pytest.mark.parametrize(
    ("target", "action", "is_conflict"),
    [("3", "commit", True), ("2", "commit", False), ("3", "compaction", False)],
    ids=["completed write", "pending write", "run of a compaction"],
)
def test_a_pending_rollback_of_a_completed_write_is_a_conflict(target: str, action: str, is_conflict: bool) -> None:
    storage = MemoryStorage(f"undone-{target}-{action}")
    plan = {"instantToRollback": {"commitTime": target, "action": action}, "RollbackRequests": [], "version": 1}
    storage.write_new("/t/.hoodie/4.rollback.requested", write_container("HoodieRollbackPlan", plan))
    table = TableState(storage, "/t", TableConfig({}), Options({}))
    now = timeline(*PLANNED_ON, "4.rollback.requested")
    if not is_conflict:
        check_still_there(table, timeline(*PLANNED_ON), now)
        return
    with pytest.raises(WriteConflict, match="commit 3 of /t is being rolled back"):
        check_still_there(table, timeline(*PLANNED_ON), now)


def test_a_pending_restore_is_a_conflict() -> None:
    with pytest.raises(WriteConflict, match="pending restore"):
        check_not_restoring(TABLE, timeline("1.commit", "4.restore.inflight"))

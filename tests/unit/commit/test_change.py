"""One change of a table: what is looked at before it is published."""

from __future__ import annotations

import uuid

import pytest

from penstock.commit.change import Change
from penstock.errors import WriteConflict
from penstock.filegroup.markers import open_write
from penstock.options import read_options
from penstock.storage import MemoryStorage
from penstock.table import TableConfig, TableState
from penstock.timeline.contents import WriteStat
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import load_timeline

LOG = WriteStat("f", "p", "p/.f_3.log.1_0-0-0", prev_commit="3")


SIGN = "/t/.hoodie/.temp/penstock-5/run"


def change(*names: str, action: Action = Action.DELTA_COMMIT, sign: str | None = None) -> Change:
    """A change at 5 that is about to be published, on a timeline with these files."""
    storage, instant = MemoryStorage(uuid.uuid4().hex), Instant("5", action, State.REQUESTED)
    for name in (*names, instant.file_name):
        storage.write_new(f"/t/.hoodie/{name}", b"{}")
    table = TableState(storage, "/t", TableConfig({"hoodie.table.name": "t"}), read_options({}), load_timeline(storage, "/t"))
    made = Change(table, instant, sign=sign)
    made.start()
    if sign:
        storage.write_new(sign, b"")
    open_write(storage, "/t", "5")
    return made


def files(of: Change) -> list[str]:
    return [f.name for f in of.table.storage.list("/t/.hoodie") if not f.is_dir]


@pytest.mark.parametrize(
    "base", ["3.compaction.requested", "3.compaction.inflight", "3.commit", "3.deltacommit", "4.deltacommit"]
)
def test_log_files_are_published_on_top_of_what_is_on_the_timeline_or_was_archived(base: str) -> None:
    of = change(base)
    of.complete([LOG], operation="UPSERT", schema="{}")
    assert "5.deltacommit" in files(of)


def test_log_files_on_top_of_a_compaction_that_was_taken_off_are_not_published() -> None:
    of = change("2.deltacommit")
    with pytest.raises(WriteConflict, match="compaction 3 of /t was unscheduled during this write. Run it again"):
        of.complete([LOG], operation="UPSERT", schema="{}")
    assert "5.deltacommit" not in files(of)


def test_log_files_of_a_new_file_group_need_no_base() -> None:
    of = change("2.deltacommit")
    of.complete([WriteStat("f", "p", "p/.f_5.log.1_0-0-0")], operation="UPSERT", schema="{}")
    assert "5.deltacommit" in files(of)


def test_a_run_that_is_taken_back_leaves_its_plan() -> None:
    of = change(action=Action.COMPACTION, sign=SIGN)
    of.abandon()
    assert files(of) == ["5.compaction.requested"]


def test_a_write_that_is_taken_back_leaves_nothing() -> None:
    of = change()
    of.abandon()
    assert files(of) == []


def test_a_run_that_was_rolled_back_meanwhile_is_not_published() -> None:
    of = change(action=Action.COMPACTION, sign=SIGN)
    of.table.storage.delete(SIGN)  # and begun again by somebody else: all the rest is there
    with pytest.raises(WriteConflict, match=r"took the run of 5\.compaction\.requested for dead"):
        of.complete([], operation="COMPACT", schema="{}", compacted=True)
    of.abandon()
    assert files(of) == ["5.compaction.inflight", "5.compaction.requested"]

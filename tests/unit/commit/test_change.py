"""One change of a table: what is looked at before it is published."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from dataclasses import replace

import pytest

from penstock.commit.change import Change
from penstock.errors import WriteConflict
from penstock.filegroup.markers import open_write, seal
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.storage import MemoryStorage
from penstock.table import TableConfig, TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import load_timeline

LOG = WriteStat("f", "p", "p/.f_3.log.1_0-0-0", prev_commit="3")


RUN_FILE = "/t/.hoodie/.temp/penstock-5/run"


def change(*names: str, action: Action = Action.DELTA_COMMIT, run_file: str | None = None, policy: str = "EAGER") -> Change:
    """A change at 5 that is about to be published, on a timeline with these files."""
    storage, instant = MemoryStorage(uuid.uuid4().hex), Instant("5", action, State.REQUESTED)
    for name in (*names, instant.file_name):
        storage.write_new(f"/t/.hoodie/{name}", b"{}")
    options = read_options({"hoodie.cleaner.policy.failed.writes": policy})
    table = TableState(storage, "/t", TableConfig({"hoodie.table.name": "t"}), options, load_timeline(storage, "/t"))
    made = Change(table, instant, run_file=run_file)
    made.start()
    if run_file:
        storage.write_new(run_file, b"")
    open_write(storage, "/t", "5")
    return made


def files(of: Change) -> list[str]:
    return [f.name for f in of.table.storage.list("/t/.hoodie") if not f.is_dir]


@pytest.mark.parametrize(
    "base", ["3.compaction.requested", "3.compaction.inflight", "3.commit", "3.deltacommit", "4.deltacommit"]
)
def test_log_files_are_published_on_top_of_what_is_on_the_timeline_or_was_archived(base: str) -> None:
    of = change(base)
    of.complete([LOG], operation=Operation.UPSERT, schema="{}")
    assert "5.deltacommit" in files(of)


def test_log_files_on_top_of_a_compaction_that_was_taken_off_are_not_published() -> None:
    of = change("2.deltacommit")
    with pytest.raises(WriteConflict, match="compaction 3 of /t was unscheduled during this write. Run it again"):
        of.complete([LOG], operation=Operation.UPSERT, schema="{}")
    assert "5.deltacommit" not in files(of)


def test_log_files_of_a_new_file_group_need_no_base() -> None:
    of = change("2.deltacommit")
    of.complete([WriteStat("f", "p", "p/.f_5.log.1_0-0-0")], operation=Operation.UPSERT, schema="{}")
    assert "5.deltacommit" in files(of)


CHANGED = WriteStat("f", "p", "p/f_0-0-0_5.parquet", prev_commit="3")


OTHERS = (replace(CHANGED, file_id="g"), replace(CHANGED, partition_path="q"), replace(CHANGED, prev_commit="null"))


@pytest.mark.parametrize("state", ["", ".inflight"])
@pytest.mark.parametrize("stats", [(CHANGED,), (*OTHERS, replace(CHANGED, path="p/.f_3.log.1_0-0-0")), OTHERS])
def test_what_a_replace_commit_has_taken_meanwhile_or_is_about_to_take_is_not_changed(
    state: str, stats: tuple[WriteStat, ...]
) -> None:
    of = change("3.commit", action=Action.COMMIT)
    taken = write_commit(CommitMetadata(operation="DELETE_PARTITION", replaced={"p": ("f",)}))
    of.table.storage.write_new(f"/t/.hoodie/4.replacecommit{state}", taken)
    told = r"4\.replacecommit.* takes file group f of partition 'p'.*Run it again"
    with nullcontext() if stats is OTHERS else pytest.raises(WriteConflict, match=told):
        of.complete(stats, operation=Operation.UPSERT, schema="{}")
    assert ("5.commit" in files(of)) is (stats is OTHERS)


@pytest.mark.parametrize("run_file", [None, RUN_FILE], ids=["an overwrite", "a clustering"])
@pytest.mark.parametrize("replaced", [{"p": ("f", "g")}, {"p": ("g",), "q": ("f",)}])
def test_file_groups_that_another_replace_commit_has_taken_meanwhile_are_not_replaced(
    run_file: str | None, replaced: dict[str, tuple[str, ...]]
) -> None:
    of = change("3.commit", action=Action.REPLACE_COMMIT, run_file=run_file)
    taken = write_commit(CommitMetadata(operation="CLUSTER", replaced={"p": ("f",)}))
    of.table.storage.write_new("/t/.hoodie/4.replacecommit", taken)
    hits = "f" in replaced["p"]
    with pytest.raises(WriteConflict, match="takes file group f of partition 'p'") if hits else nullcontext():
        of.complete([], operation=Operation.INSERT_OVERWRITE, schema="{}", replaced=replaced)
    assert ("5.replacecommit" in files(of)) is not hits


def test_who_gives_no_sign_of_life_and_would_take_what_is_changed_cannot_go_on() -> None:
    of = change("3.commit", action=Action.COMMIT, policy="LAZY")
    storage = of.table.storage
    storage.write_new("/t/.hoodie/.heartbeat/5", b"")
    taken = write_commit(CommitMetadata(operation="DELETE_PARTITION", replaced={"p": ("f",)}))
    storage.write_new("/t/.hoodie/4.replacecommit.inflight", taken)
    open_write(storage, "/t", "4")
    of.complete([CHANGED], operation=Operation.UPSERT, schema="{}")
    assert "5.commit" in files(of)
    assert not seal(storage, "/t", "4")  # was done


@pytest.mark.parametrize("content", [b"", b"torn", b"{}"])
def test_a_replace_commit_under_way_that_says_nothing_is_in_nobodys_way(content: bytes) -> None:
    of = change("3.commit", action=Action.COMMIT)
    of.table.storage.write_new("/t/.hoodie/4.replacecommit.inflight", content)
    of.complete([CHANGED], operation=Operation.UPSERT, schema="{}")
    assert "5.commit" in files(of)


def test_a_replace_commit_from_before_the_write_is_not_looked_at() -> None:
    of = change("3.commit", "4.replacecommit", action=Action.COMMIT)
    of.table.storage.replace("/t/.hoodie/4.replacecommit", b"torn")
    of.complete([CHANGED], operation=Operation.UPSERT, schema="{}")
    assert "5.commit" in files(of)


def test_a_run_that_is_taken_back_leaves_its_plan() -> None:
    of = change(action=Action.COMPACTION, run_file=RUN_FILE)
    of.abandon()
    assert files(of) == ["5.compaction.requested"]


def test_a_write_that_is_taken_back_leaves_nothing() -> None:
    of = change()
    of.abandon()
    assert files(of) == []


def test_a_run_that_was_rolled_back_meanwhile_is_not_published() -> None:
    of = change(action=Action.COMPACTION, run_file=RUN_FILE)
    of.table.storage.delete(RUN_FILE)  # and begun again by somebody else: all the rest is there
    with pytest.raises(WriteConflict, match=r"took the run of 5\.compaction\.requested for dead"):
        of.complete([], operation=Operation.COMPACT, schema="{}", compacted=True)
    of.abandon()
    assert files(of) == ["5.compaction.inflight", "5.compaction.requested"]

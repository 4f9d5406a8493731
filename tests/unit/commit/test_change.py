"""One change of a table: the checks before it is published, and what is left when it is rolled back."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from dataclasses import replace

import pytest

from penstock.commit.change import Change
from penstock.commit.markers import open_write, seal
from penstock.errors import WriteConflict
from penstock.filegroup.markers import Marker, MarkerStyle, MarkerType, announce
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.services.rollback.run import roll_back
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import load_timeline

LOG = WriteStat("f", "p", "p/.f_3.log.1_0-0-0", prev_commit="3")


RUN_FILE = "/t/.hoodie/.temp/penstock-5/run"


def make_change(*names: str, action: Action = Action.DELTA_COMMIT, run_file: str | None = None, policy: str = "EAGER") -> Change:
    """Return a change at 5 that is about to be published, on a timeline with these files."""
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


def timeline_files(change: Change) -> list[str]:
    return [f.name for f in change.table.storage.list("/t/.hoodie") if not f.is_dir]


@pytest.mark.parametrize(
    "base", ["3.compaction.requested", "3.compaction.inflight", "3.commit", "3.deltacommit", "4.deltacommit"]
)
def test_log_files_are_published_on_top_of_a_known_or_archived_base_instant(base: str) -> None:
    change = make_change(base)
    change.complete([LOG], operation=Operation.UPSERT, schema="{}")
    assert "5.deltacommit" in timeline_files(change)


def test_log_files_on_top_of_an_unscheduled_compaction_are_not_published() -> None:
    change = make_change("2.deltacommit")
    with pytest.raises(WriteConflict, match="compaction 3 of /t was unscheduled during this write. Run it again"):
        change.complete([LOG], operation=Operation.UPSERT, schema="{}")
    assert "5.deltacommit" not in timeline_files(change)


def test_log_files_of_a_new_file_group_need_no_base_instant_on_the_timeline() -> None:
    change = make_change("2.deltacommit")
    change.complete([WriteStat("f", "p", "p/.f_5.log.1_0-0-0")], operation=Operation.UPSERT, schema="{}")
    assert "5.deltacommit" in timeline_files(change)


CHANGED = WriteStat("f", "p", "p/f_0-0-0_5.parquet", prev_commit="3")


OTHERS = (replace(CHANGED, file_id="g"), replace(CHANGED, partition_path="q"), replace(CHANGED, prev_commit="null"))


@pytest.mark.parametrize("state", ["", ".inflight"])
@pytest.mark.parametrize("stats", [(CHANGED,), (*OTHERS, replace(CHANGED, path="p/.f_3.log.1_0-0-0")), OTHERS])
def test_a_write_conflicts_with_a_replace_commit_that_took_its_file_group_or_is_about_to(
    state: str, stats: tuple[WriteStat, ...]
) -> None:
    change = make_change("3.commit", action=Action.COMMIT)
    taken = write_commit(CommitMetadata(operation="DELETE_PARTITION", replaced={"p": ("f",)}))
    change.table.storage.write_new(f"/t/.hoodie/4.replacecommit{state}", taken)
    message = r"4\.replacecommit.* takes file group f of partition 'p'.*Run it again"
    with nullcontext() if stats is OTHERS else pytest.raises(WriteConflict, match=message):
        change.complete(stats, operation=Operation.UPSERT, schema="{}")
    assert ("5.commit" in timeline_files(change)) is (stats is OTHERS)


@pytest.mark.parametrize("run_file", [None, RUN_FILE], ids=["an overwrite", "a clustering"])
@pytest.mark.parametrize("replaced", [{"p": ("f", "g")}, {"p": ("g",), "q": ("f",)}])
def test_file_groups_that_another_replace_commit_has_taken_are_not_replaced(
    run_file: str | None, replaced: dict[str, tuple[str, ...]]
) -> None:
    change = make_change("3.commit", action=Action.REPLACE_COMMIT, run_file=run_file)
    taken = write_commit(CommitMetadata(operation="CLUSTER", replaced={"p": ("f",)}))
    change.table.storage.write_new("/t/.hoodie/4.replacecommit", taken)
    hits = "f" in replaced["p"]
    with pytest.raises(WriteConflict, match="takes file group f of partition 'p'") if hits else nullcontext():
        change.complete([], operation=Operation.INSERT_OVERWRITE, schema="{}", replaced=replaced)
    assert ("5.replacecommit" in timeline_files(change)) is not hits


def test_a_replace_commit_without_a_heartbeat_is_sealed_and_the_write_goes_on() -> None:
    change = make_change("3.commit", action=Action.COMMIT, policy="LAZY")
    storage = change.table.storage
    storage.write_new("/t/.hoodie/.heartbeat/5", b"")
    taken = write_commit(CommitMetadata(operation="DELETE_PARTITION", replaced={"p": ("f",)}))
    storage.write_new("/t/.hoodie/4.replacecommit.inflight", taken)
    open_write(storage, "/t", "4")
    change.complete([CHANGED], operation=Operation.UPSERT, schema="{}")
    assert "5.commit" in timeline_files(change)
    assert not seal(storage, "/t", "4")  # was done


@pytest.mark.parametrize("content", [b"", b"torn", b"{}"])
def test_a_pending_replace_commit_that_names_no_file_groups_conflicts_with_nothing(content: bytes) -> None:
    change = make_change("3.commit", action=Action.COMMIT)
    change.table.storage.write_new("/t/.hoodie/4.replacecommit.inflight", content)
    change.complete([CHANGED], operation=Operation.UPSERT, schema="{}")
    assert "5.commit" in timeline_files(change)


def test_a_replace_commit_from_before_the_write_is_not_read() -> None:
    change = make_change("3.commit", "4.replacecommit", action=Action.COMMIT)
    change.table.storage.replace("/t/.hoodie/4.replacecommit", b"torn")
    change.complete([CHANGED], operation=Operation.UPSERT, schema="{}")
    assert "5.commit" in timeline_files(change)


def test_a_rolled_back_run_leaves_its_plan() -> None:
    change = make_change(action=Action.COMPACTION, run_file=RUN_FILE)
    change.abandon()
    assert timeline_files(change) == ["5.compaction.requested"]


def test_a_rolled_back_write_leaves_nothing() -> None:
    change = make_change()
    change.abandon()
    assert timeline_files(change) == []


def test_a_withdrawn_write_is_rolled_back_with_the_files_of_tasks_that_ended_late() -> None:
    storage = MemoryStorage(uuid.uuid4().hex)
    table = TableState(storage, "/t", TableConfig({"hoodie.table.name": "t"}), read_options({}), load_timeline(storage, "/t"))
    write = Instant("20260101000000000", Action.COMMIT, State.REQUESTED)
    storage.write_new(f"/t/.hoodie/{write.file_name}", b"")
    open_write(storage, "/t", write.time)
    paths = [f"p/{name}_0-0-0_{write.time}.parquet" for name in ("f", "g")]
    announce(storage, "/t", write.time, [Marker(path, MarkerType.CREATE) for path in paths], MarkerStyle.DIRECT)
    storage.write_new(f"/t/{paths[0]}", b"")
    change = Change(table, write)
    change.start()
    change.withdraw()
    assert storage.stat(f"/t/{paths[0]}") is None
    storage.write_new(f"/t/{paths[1]}", b"")  # its task looked at the seal before
    roll_back(reload_timeline(table), write)
    assert storage.stat(f"/t/{paths[1]}") is None
    assert load_timeline(storage, "/t").pending == ()


def test_a_run_that_another_process_rolled_back_is_not_published() -> None:
    change = make_change(action=Action.COMPACTION, run_file=RUN_FILE)
    change.table.storage.delete(RUN_FILE)  # another process rolled the run back and began it again: all the rest is there
    with pytest.raises(WriteConflict, match=r"took the run of 5\.compaction\.requested for dead"):
        change.complete([], operation=Operation.COMPACT, schema="{}", compacted=True)
    change.abandon()
    assert timeline_files(change) == ["5.compaction.inflight", "5.compaction.requested"]

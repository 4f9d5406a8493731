"""Partitions with a time to live: which have expired, and their deletion concurrently with writes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from penstock import options as o
from penstock.commit.begin import begin
from penstock.door.expire import expire_partitions
from penstock.errors import OptionError, WriteConflict
from penstock.filegroup.names import base_file_name, log_file_name
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.ttl import expired_partitions
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata
from tests.unit.services.histories import History, at

NOW = datetime(2024, 1, 11, 0, 0, 30)  # ten days after at(30)
DAYS = "partition_ttl_strategy_days_retain"


def test_a_partition_expires_when_its_newest_slice_is_older_than_the_days() -> None:
    history = History().commit(1, ["old/g-0", "kept/g-1"]).commit(40, ["kept/g-1"])
    assert expired_partitions(history.table(**{DAYS: 10}), NOW) == ["old"]
    assert expired_partitions(history.table(**{DAYS: 11}), NOW) == []
    assert expired_partitions(history.table(), NOW) == []
    assert expired_partitions(history.table(**{DAYS: 9}), NOW) == ["kept", "old"]
    assert expired_partitions(history.table(**{DAYS: 9, "partition_ttl_strategy_max_delete_partitions": 1}), NOW) == ["kept"]
    chosen = {DAYS: 9, "partition_ttl_strategy_partition_selected": "old,elsewhere"}
    assert expired_partitions(history.table(**chosen), NOW) == ["old"]


def test_the_age_of_a_partition_may_count_from_the_write_that_made_it() -> None:
    history = History().commit(1, ["p/g-0"]).commit(40, ["p/g-0"])
    history.storage.replace("/t/p/.hoodie_partition_metadata", f"commitTime={at(1)}\npartitionDepth=1\n".encode())
    by_creation = {DAYS: 10, "partition_ttl_management_strategy_type": "KEEP_BY_CREATION_TIME"}
    assert expired_partitions(history.table(**by_creation), NOW) == ["p"]
    assert expired_partitions(history.table(**{DAYS: 10}), NOW) == []


def test_a_partition_with_new_log_files_does_not_expire() -> None:
    history = History("MERGE_ON_READ").commit(1, ["p/g-0", "q/g-1"], action="deltacommit")
    for path, group in (("p", "g-0"), ("q", "g-1")):
        history.file(f"{path}/{log_file_name(group, at(1), 1, '0-0-0')}")
    stat = WriteStat("g-0", "p", f"p/{log_file_name('g-0', at(1), 1, '0-0-0')}", prev_commit=at(1))
    for suffix, content in ((".requested", b""), (".inflight", b""), ("", write_commit(CommitMetadata((stat,))))):
        history.instant(f"{at(40)}.deltacommit{suffix}", content)
    assert expired_partitions(history.table(**{DAYS: 10}), NOW) == ["q"]


def test_expired_partitions_are_deleted_by_one_replace_commit() -> None:
    history = History().commit(1, ["old/g-0", "older/g-1"])
    table = history.table(**{DAYS: 10})
    done = expire_partitions(table, Stages("", "off"))
    assert done is not None
    assert done.metadata.operation == "DELETE_PARTITION"
    newest = history.table().timeline.writes[-1]
    assert newest.action.value == "replacecommit"
    assert read_metadata(history.storage, "/t", newest).replaced == {"old": ("g-0",), "older": ("g-1",)}
    assert expire_partitions(table, Stages("", "off")) is None


def test_no_partition_is_deleted_while_a_write_is_pending() -> None:
    history = History().commit(1, ["old/g-0"])
    table, quiet = history.table(**{DAYS: 10}), Stages("", "off")
    writing = f"/t/.hoodie/{at(40)}.commit.requested"
    history.storage.write_new(writing, b"")
    with pytest.warns(
        RuntimeWarning, match=r"no end of old partitions of /t is planned now: write .*commit\.requested is under way"
    ):
        assert expire_partitions(table, quiet) is None
    history.storage.delete(writing)

    class Begins(type(history.storage)):  # type: ignore[misc]
        """A storage on which a write begins when the partitions have been listed."""

        def write_new(self, path: str, data: bytes) -> None:
            super().write_new(path, data)
            if path.endswith("replacecommit.inflight"):
                super().write_new(f"/t/.hoodie/{at(41)}.commit.requested", b"")

    begins = replace(table, storage=Begins(history.storage.name))
    with pytest.warns(RuntimeWarning, match="is under way"):
        assert expire_partitions(begins, quiet) is None
    assert [i.file_name for i in history.table().timeline.instants] == [f"{at(1)}.commit", f"{at(41)}.commit.requested"]


def test_no_partition_is_deleted_if_a_write_completed_while_they_were_listed() -> None:
    history = History().commit(1, ["old/g-0"])

    class Finishes(type(history.storage)):  # type: ignore[misc]
        """A storage on which a write completes when the partitions have been listed."""

        def write_new(self, path: str, data: bytes) -> None:
            super().write_new(path, data)
            if path.endswith("replacecommit.inflight"):
                history.commit(41, ["old/g-0"])

    table = replace(history.table(**{DAYS: 10}), storage=Finishes(history.storage.name))
    with pytest.warns(RuntimeWarning, match=f"write {at(41)} came between"):
        assert expire_partitions(table, Stages("", "off")) is None
    assert [i.time for i in history.table().timeline.instants] == [at(1), at(41)]


@pytest.mark.parametrize("first", [True, False])
def test_a_write_that_began_after_the_last_check_conflicts_with_the_deletion(first: bool) -> None:
    history = History().commit(1, ["old/g-0"])
    stat = WriteStat("g-0", "old", f"old/{base_file_name('g-0', '0-0-0', at(41))}", prev_commit=at(1))

    class Writes(type(history.storage)):  # type: ignore[misc]
        """A storage on which a write begins after the last check, and publishes before the deletion of the partitions or after it."""

        def write_new(self, path: str, data: bytes) -> None:
            if not path.endswith(".replacecommit"):
                return super().write_new(path, data)
            with begin(history.table(), Action.COMMIT) as change:
                change.start()
                if not first:
                    super().write_new(path, data)
                with pytest.raises(WriteConflict, match=r"takes file group g-0 of partition 'old' out of.*Run it again"):
                    change.complete([stat], operation=Operation.UPSERT, schema="{}")
                change.abandon()
            return super().write_new(path, data) if first else None

    table = replace(history.table(**{DAYS: 10}), storage=Writes(history.storage.name))
    assert expire_partitions(table, Stages("", "off")) is not None
    newest = history.table().timeline.instants[-1]
    assert (newest.is_completed, newest.action) == (True, Action.REPLACE_COMMIT)


def test_a_java_strategy_and_days_that_are_no_number_are_refused() -> None:
    with pytest.raises(OptionError, match=r"hoodie\.partition\.ttl\.management\.strategy\.type"):
        read_options({o.TTL_INLINE.key: "true", "hoodie.partition.ttl.strategy.class": "com.example.Mine"})
    with pytest.raises(OptionError, match="days"):
        read_options({o.TTL_DAYS.key: "soon"})

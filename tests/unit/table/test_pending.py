"""File groups that wait for a table service, as the plans on the timeline name them."""

from __future__ import annotations

import uuid

import pytest

from penstock.errors import CorruptFile
from penstock.formats.avro.container import write_container
from penstock.options import Options
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.pending import (
    find_pending_clusterings,
    find_pending_compactions,
    find_pending_log_compactions,
    list_compaction_plans,
)
from penstock.table.state import TableState
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from penstock.timeline.instant import Action
from penstock.timeline.store import load_timeline


def table(**files: bytes) -> TableState:
    """A table with these files on its timeline; `_` stands for a dot."""
    storage = MemoryStorage(uuid.uuid4().hex)
    for name, content in files.items():
        storage.write_new(f"/t/.hoodie/{name.lstrip('_').replace('_', '.')}", content)
    return TableState(storage, "/t", TableConfig({"hoodie.table.name": "t"}), Options({}), load_timeline(storage, "/t"))


def plan(*groups: tuple[str, str]) -> bytes:
    return write_compaction_plan(
        CompactionPlan(tuple(CompactionOperation(path, file_id, "1", None, ()) for path, file_id in groups))
    )


def test_groups_of_requested_and_inflight_compactions_are_pending() -> None:
    state = table(
        _2_compaction_requested=plan(("a", "f")),
        _2_commit=b"",
        _3_compaction_requested=plan(("a", "g"), ("b", "g")),
        _4_compaction_requested=plan(("", "h")),
        _4_compaction_inflight=b"",
    )
    assert find_pending_compactions(state) == {("a", "g"): "3", ("b", "g"): "3", ("", "h"): "4"}
    assert [instant.time for instant, _ in list_compaction_plans(state)] == ["3", "4"]


def test_a_writer_counts_only_plans_before_its_own_instant() -> None:
    state = table(_3_compaction_requested=plan(("a", "f")), _5_compaction_requested=plan(("a", "g")))
    assert find_pending_compactions(state, before="4") == {("a", "f"): "3"}


def test_log_compactions_and_compactions_are_listed_separately() -> None:
    state = table(_3_logcompaction_requested=plan(("a", "f")), _4_compaction_requested=plan(("a", "g")))
    assert find_pending_log_compactions(state) == {("a", "f"): "3"}
    assert find_pending_compactions(state) == {("a", "g"): "4"}
    assert len(list_compaction_plans(state, Action.LOG_COMPACTION)) == 1


def test_a_plan_that_was_unscheduled_after_the_timeline_was_loaded_is_ignored() -> None:
    state = table(_3_compaction_requested=plan(("a", "f")))
    state.storage.delete("/t/.hoodie/3.compaction.requested")
    assert find_pending_compactions(state) == {}


def test_an_inflight_compaction_without_a_plan_is_an_error() -> None:
    with pytest.raises(CorruptFile, match=r"3\.compaction\.inflight of /t has no plan: 3\.compaction\.requested is missing"):
        find_pending_compactions(table(_3_compaction_inflight=b""))


def test_a_plan_that_cannot_be_read_is_an_error_that_names_it() -> None:
    with pytest.raises(CorruptFile, match=r"3\.compaction\.requested is not a compaction plan"):
        find_pending_compactions(table(_3_compaction_requested=b""))


def test_groups_of_a_clustering_are_pending_and_those_of_a_replacing_write_are_not() -> None:
    slices = [{"fileId": "f", "partitionPath": "a"}, {"fileId": "g", "partitionPath": ""}]
    clustering = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": slices}]}}
    state = table(
        _3_replacecommit_requested=write_container("HoodieRequestedReplaceMetadata", clustering),
        _4_replacecommit_requested=write_container("HoodieRequestedReplaceMetadata", {}),
        _5_replacecommit_requested=b"",
    )
    assert find_pending_clusterings(state) == {("a", "f"): "3", ("", "g"): "3"}

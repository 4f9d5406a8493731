"""The timeline as a value: states, and which files are part of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.storage import LocalStorage
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import load_timeline
from penstock.timeline.timeline import Timeline
from tests.kit.golden import unpack_golden

GOLDEN = {
    "cow_v6_nonpartitioned": ["20240418173550988.commit", "20240418173551906.commit"],
    "cow_v6_simplekeygen_nonhivestyle": ["20240418172802262.commit", "20240418172804498.commit"],
    "cow_v6_complexkeygen_hivestyle": ["20240418173213674.commit", "20240418173235694.commit"],
    "cow_v6_simplekeygen_hivestyle_no_metafields": ["20240426205419518.commit"],
    "cow_v6_empty": [],
    "mor_parquet_v6_nonpartitioned": ["20250117083125837.deltacommit", "20250117083136333.deltacommit"],
    "mor_parquet_v6_simplekeygen_nonhivestyle_overwritetable": [
        "20250121000647668.deltacommit",
        "20250121000656060.deltacommit",
        "20250121000702475.replacecommit",
    ],
    "trips_mor_avro_v6_trips_8i1u": ["20250331030642808.deltacommit", "20250331030645735.deltacommit"],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_timeline_of_a_table_of_hudi_is_its_completed_writes(name: str, tmp_path: Path) -> None:
    timeline = load_timeline(LocalStorage(), str(unpack_golden(name, tmp_path)))
    assert [i.file_name for i in timeline.writes] == GOLDEN[name]
    assert timeline.pending == ()


def test_an_instant_is_in_the_latest_state_that_has_a_file() -> None:
    timeline = Timeline.from_names(["1.commit", "1.inflight", "1.commit.requested", "2.inflight", "2.commit.requested"])
    assert timeline.instants == (
        Instant("1", Action.COMMIT, State.COMPLETED),
        Instant("2", Action.COMMIT, State.INFLIGHT),
    )


def test_a_compaction_that_completed_is_a_commit() -> None:
    timeline = Timeline.from_names(["5.compaction.requested", "5.compaction.inflight", "5.commit"])
    assert [(i.action, i.state) for i in timeline.instants] == [(Action.COMMIT, State.COMPLETED)]


def test_a_log_compaction_that_completed_is_a_delta_commit() -> None:
    timeline = Timeline.from_names(["5.logcompaction.requested", "5.deltacommit"])
    assert [(i.action, i.state) for i in timeline.instants] == [(Action.DELTA_COMMIT, State.COMPLETED)]


def test_a_savepoint_does_not_hide_the_commit_of_the_same_time() -> None:
    timeline = Timeline.from_names(["5.commit", "5.savepoint.inflight"])
    assert timeline.last_write == Instant("5", Action.COMMIT, State.COMPLETED)
    assert timeline.is_visible("5")


def test_other_files_are_not_instants() -> None:
    names = ["hoodie.properties", ".1.commit.crc", "1.commit.0f8308df", "archived", "1.commit"]
    assert [i.file_name for i in Timeline.from_names(names).instants] == ["1.commit"]


def test_nothing_is_visible_on_an_empty_timeline() -> None:
    assert not Timeline().is_visible("1")
    assert not Timeline.from_names(["2.commit.requested"]).is_visible("1")


def test_files_of_completed_writes_are_visible_and_others_are_not() -> None:
    timeline = Timeline.from_names(["2.commit", "3.inflight", "4.deltacommit", "5.replacecommit", "6.clean", "7.rollback"])
    assert [t for t in "23456789" if timeline.is_visible(t)] == ["2", "4", "5"]


def test_files_older_than_the_active_timeline_were_archived_and_are_visible() -> None:
    assert Timeline.from_names(["5.commit", "7.commit"]).is_visible("4")


def test_files_between_two_commits_without_an_instant_are_not_visible() -> None:
    assert not Timeline.from_names(["5.commit", "7.commit"]).is_visible("6")


def test_files_of_a_pending_write_older_than_the_first_commit_are_not_visible() -> None:
    assert not Timeline.from_names(["3.commit.requested", "3.inflight", "5.commit"]).is_visible("3")


def test_files_of_a_pending_compaction_or_clustering_are_not_visible() -> None:
    timeline = Timeline.from_names(["1.deltacommit", "2.compaction.requested", "3.replacecommit.requested", "4.deltacommit"])
    assert [t for t in "1234" if timeline.is_visible(t)] == ["1", "4"]


def test_commits_archived_behind_a_savepoint_are_visible() -> None:
    """Archival may leave a savepointed commit behind and take the ones after it."""
    timeline = Timeline.from_names(["2.commit", "2.savepoint", "7.commit", "8.inflight"])
    assert [t for t in "123456789" if timeline.is_visible(t)] == ["1", "2", "3", "4", "5", "6", "7"]


def test_the_last_time_counts_every_instant_whatever_its_state() -> None:
    assert Timeline.from_names(["1.commit", "2.clean.requested"]).last_time == "2"
    assert Timeline().last_time is None


def test_times_of_14_and_17_digits_are_ordered_as_text() -> None:
    timeline = Timeline.from_names(["20240101000000500.commit", "20240101000000.commit", "20231231235959.commit"])
    assert [i.time for i in timeline.writes] == ["20231231235959", "20240101000000", "20240101000000500"]

"""Which files are small, how many rows a new file group gets, and the size of a record as earlier commits had it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.filegroup.model import FileSlice
from penstock.timeline.instant import Action
from penstock.write.locate.small_files import Sizing, estimate_record_bytes
from tests.unit.write.locate.test_assign import SIZING, slices


def test_with_a_limit_of_0_no_file_is_small() -> None:
    assert replace(SIZING, small_file_limit=0).find_small_slices(slices(0, 1)) == []
    assert SIZING.find_small_slices(slices(0, 999, 1_000)) == slices(0, 999)


def test_a_slice_without_a_base_file_is_not_small() -> None:
    assert SIZING.find_small_slices([FileSlice("p", "f", "001")]) == []


@pytest.mark.parametrize(("max_bytes", "record", "rows"), [(2_000, 10, 200), (2_001, 10, 201), (5, 10, 1)])
def test_rows_per_group_are_rounded_up(max_bytes: int, record: int, rows: int) -> None:
    assert Sizing(0, max_bytes, record).rows_per_group == rows


def commit(*files: tuple[str, int, int]) -> list[tuple[str, int, int]]:
    """Return path, bytes and rows of the files of a commit."""
    return list(files)


def test_the_newest_commit_above_the_threshold_decides() -> None:
    commits = [
        (Action.COMMIT, commit(("a.parquet", 90, 1))),  # too small to tell
        (Action.COMMIT, commit(("a.parquet", 500, 100), ("b.parquet", 601, 100))),
        (Action.COMMIT, commit(("a.parquet", 9_999, 1))),
    ]
    assert estimate_record_bytes(commits, 100, 1_024) == 6  # 1,101 bytes of 200 rows, rounded up


def test_a_commit_of_exactly_the_threshold_does_not_count() -> None:
    assert estimate_record_bytes([(Action.COMMIT, commit(("a.parquet", 100, 1)))], 100, 7) == 7


def test_a_commit_without_rows_does_not_count() -> None:
    assert estimate_record_bytes([(Action.REPLACE_COMMIT, commit(("a.parquet", 500, 0)))], 0, 7) == 7


def test_only_base_files_of_a_delta_commit_count() -> None:
    mixed = commit(("a.parquet", 500, 10), (".a_001.log.1_0-0-0", 5_000, 10))
    assert estimate_record_bytes([(Action.DELTA_COMMIT, mixed)], 0, 7) == 50
    assert estimate_record_bytes([(Action.COMMIT, mixed)], 0, 7) == 275


def test_without_commits_the_estimate_is_used() -> None:
    assert estimate_record_bytes([], 100, 1_024) == 1_024


def test_older_commits_are_not_read_once_one_decides() -> None:
    def commits():  # type: ignore[no-untyped-def]
        yield Action.COMMIT, commit(("a.parquet", 500, 10))
        raise AssertionError("an older commit was read")

    assert estimate_record_bytes(commits(), 100, 7) == 50

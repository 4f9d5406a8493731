"""New rows are assigned to file groups: to small files first, then to new groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filegroup.model import BaseFile, FileSlice, LogFile
from penstock.write.locate.assign import assign_pieces
from penstock.write.locate.small_files import Sizing
from penstock.write.rows.staging import Piece
from penstock.write.tasks.task import InsertBucket

#: Files below 1,000 bytes are small and take up to 2,000; a row has 10 bytes.
SIZING = Sizing(small_file_limit=1_000, max_file_bytes=2_000, record_bytes=10)


def slices(*sizes: int, path: str = "p") -> list[FileSlice]:
    return [FileSlice(path, f"f{i}", "001", BaseFile(f"/t/{path}/f{i}", f"f{i}", "001", size)) for i, size in enumerate(sizes)]


def piece(rows: int, path: str = "p", batch: int = 0) -> Piece:
    return Piece(path, "staged", batch, rows, rows * 8)


def targets(buckets: Sequence[InsertBucket]) -> list[tuple[str | None, int]]:
    return [(b.target.file_id if b.target else None, b.rows) for b in buckets]


@pytest.mark.parametrize(
    ("sizes", "rows", "expected"),
    [
        ((), 150, [(None, 150)]),
        ((), 200, [(None, 200)]),
        ((), 201, [(None, 200), (None, 1)]),
        ((500,), 10, [("f0", 10)]),
        ((500,), 150, [("f0", 150)]),
        ((500,), 151, [("f0", 150), (None, 1)]),
        ((500, 900), 200, [("f0", 150), ("f1", 50)]),
        ((999, 1_000), 200, [("f0", 100), (None, 100)]),  # 1,000 is not below the limit
        ((995,), 500, [("f0", 100), (None, 200), (None, 200)]),  # whole rows only: (2000 - 995) // 10
        ((5_000,), 10, [(None, 10)]),
    ],
)
def test_small_files_are_filled_before_new_groups_are_opened(
    sizes: tuple[int, ...], rows: int, expected: list[tuple[str | None, int]]
) -> None:
    assert targets(assign_pieces([piece(rows)], {"p": slices(*sizes)}, SIZING)) == expected


def logged(file_id: str, base: int | None, *logs: int, base_instant: str = "001") -> FileSlice:
    """A slice of a merge-on-read table: sizes of its base file, if it has one, and of its log files."""
    base_file = None if base is None else BaseFile(f"/t/p/{file_id}", file_id, "001", base)
    files = tuple(LogFile(f"/t/p/{file_id}.{i}", file_id, "001", i, "0-0-0", size) for i, size in enumerate(logs, 1))
    return FileSlice("p", file_id, base_instant, base_file, files)


def test_if_new_rows_go_to_logs_every_slice_with_room_takes_some() -> None:
    """A byte of a log counts as 0.35 bytes. The limit for small files only says whether files are filled at all."""
    to_logs = replace(SIZING, candidates=1, log_ratio=0.35)
    some = [
        logged("f0", 1_500),
        logged("f1", 500, 1_000, 1_000),
        logged("f2", None, 2_000),
        logged("f3", 1_900, 300),
        logged("f4", 500, base_instant="002"),
        logged("f5", None, 10, base_instant="002"),
    ]
    assert to_logs.find_small_slices(some) == some[:3], "one is full, and compactions are pending for the last two"
    assert [to_logs.count_rows_that_fit(s) for s in some[:3]] == [50, 80, 130]
    found = targets(assign_pieces([piece(300)], {"p": some}, to_logs))
    assert found == [("f0", 50), ("f1", 80), ("f2", 130), (None, 40)]
    assert replace(to_logs, small_file_limit=0).find_small_slices(some) == []
    assert replace(to_logs, log_ratio=None, small_file_limit=2_000).find_small_slices(some) == [some[0]], (
        "otherwise one without logs"
    )


def test_a_small_file_without_room_for_a_row_gets_none() -> None:
    tight = Sizing(small_file_limit=1_000, max_file_bytes=900, record_bytes=10)
    assert targets(assign_pieces([piece(5)], {"p": slices(895)}, tight)) == [(None, 5)]


def test_rows_go_to_files_of_their_own_partition() -> None:
    buckets = assign_pieces([piece(5, "a"), piece(3, "b"), piece(2, "a")], {"a": slices(500, path="a"), "c": slices(1)}, SIZING)
    assert [(b.partition_path, *t) for b, t in zip(buckets, targets(buckets), strict=True)] == [("a", "f0", 7), ("b", None, 3)]


def test_a_split_size_overrides_the_file_size() -> None:
    fixed = replace(SIZING, split_rows=30)
    assert fixed.rows_per_group == 30
    assert targets(assign_pieces([piece(70)], {}, fixed)) == [(None, 30), (None, 30), (None, 10)]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=6), st.lists(st.integers(0, 2_500), max_size=4))
def test_every_row_goes_to_exactly_one_group_in_order(counts: list[int], sizes: list[int]) -> None:
    pieces = [piece(rows, batch=i) for i, rows in enumerate(counts)]
    buckets = assign_pieces(pieces, {"p": slices(*sizes)}, SIZING)
    handed = [(p.batch, p.offset + n) for b in buckets for p in b.pieces for n in range(p.rows)]
    assert handed == [(i, n) for i, rows in enumerate(counts) for n in range(rows)]
    for bucket in buckets:
        room = SIZING.count_rows_that_fit(bucket.target) if bucket.target else 200
        assert 0 < bucket.rows <= room
    assert buckets == assign_pieces(pieces, {"p": slices(*sizes)}, SIZING)

"""Hit files and files of new rows: what locating hands over to the tasks that write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.merge.row_choice import Fate
from penstock.storage import LocalStorage
from penstock.write.locate.new_rows import NewRowsTask, find_new_rows
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import Piece
from penstock.write.tasks.located_rows import (
    HitBatch,
    Hits,
    NewRowRange,
    create_hit_file,
    make_merge_hits,
    read_hit_file,
    read_hits,
    read_new_rows,
    write_new_rows_file,
)

STORAGE = LocalStorage()
#: Rows 0 to 2 are of partition b, row 3 of a, rows 4 and 5 of b.
PIECES = (Piece("b", "staged", 0, 3, 30), Piece("a", "staged", 1, 1, 10), Piece("b", "staged", 2, 2, 20))


def hits_of(*pairs: tuple[int, int, Fate]) -> Hits:
    old, new, fates = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Hits(np.array(old, np.int64), np.array(new, np.int64), np.array(fates, np.int8))


def write_hit_file(path: Path, *slices: Hits, rows: list[int] | None = None) -> str:
    with create_hit_file(STORAGE, str(path)) as file:
        for hits in slices:
            file.write_hits(hits)
        if rows is not None:
            file.write_rows(np.array(rows, np.int64))
    return str(path)


def to_pairs(hits: Hits) -> list[tuple[int, int, int]]:
    return list(zip(hits.old.tolist(), hits.new.tolist(), hits.fates.tolist(), strict=True))


def test_a_row_number_leads_to_its_partition_path() -> None:
    partitions = RowPartitions(PIECES)
    assert partitions.paths == ["a", "b"]
    assert partitions.path_numbers_of(np.array([0, 2, 3, 4, 5])).tolist() == [1, 1, 0, 1, 1]
    assert [partitions.path_number(path) for path in ("a", "b", "c")] == [0, 1, -1]


def test_hits_come_back_by_slice_and_the_rows_that_count_behind_them(tmp_path: Path) -> None:
    first = hits_of((4, 1, Fate.MERGE), (7, 0, Fate.MOVE))
    path = write_hit_file(tmp_path / "hits", first, hits_of(), rows=[0, 1, 5])
    slices, rows = read_hit_file(STORAGE, path, lists_rows=True)
    assert [to_pairs(hits) for hits in slices] == [to_pairs(first), []]
    assert rows.tolist() == [0, 1, 5]
    assert to_pairs(read_hits(STORAGE, HitBatch(path, 0))) == to_pairs(first)
    assert make_merge_hits(np.array([3, -1]), np.array([0, 1])).have_positions is False


def test_dead_rows_come_alive_except_those_that_live_elsewhere(tmp_path: Path) -> None:
    hits = write_hit_file(tmp_path / "hits", hits_of((1, 0, Fate.DEAD), (2, 1, Fate.DEAD), (3, 2, Fate.MERGE)))
    write_new_rows_file(STORAGE, str(tmp_path / "new"), np.array([5]), np.array([1]))
    assert to_pairs(read_hits(STORAGE, HitBatch(hits, 0))) == [(1, 0, 0), (2, 1, 0), (3, 2, 0)]
    assert to_pairs(read_hits(STORAGE, HitBatch(hits, 0), str(tmp_path / "new"))) == [(1, 0, 0), (3, 2, 0)]


def test_a_task_reads_its_own_part_of_the_new_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    write_new_rows_file(STORAGE, path, np.array([4, 2, 9, 7]), np.array([], np.int64))
    assert read_new_rows(STORAGE, NewRowRange(path, 1, 2)).tolist() == [2, 9]


@pytest.mark.parametrize("revives", [True, False])
def test_rows_are_new_if_no_living_row_meets_them_or_if_they_move(tmp_path: Path, revives: bool) -> None:
    """Row 0 is merged, 1 moves, 2 is dead once, 3 is new, 4 is dead once and merged in another slice, 5 does not count."""
    first = write_hit_file(
        tmp_path / "first",
        hits_of((0, 0, Fate.MERGE), (1, 1, Fate.MOVE), (2, 2, Fate.DEAD), (3, 4, Fate.DEAD)),
        rows=[0, 1, 2, 3, 4],
    )
    second = write_hit_file(tmp_path / "second", hits_of((0, 4, Fate.MERGE)))
    task = NewRowsTask(STORAGE, PIECES, (first, second), str(tmp_path / "new"), revives)
    result = find_new_rows(task)
    expected = [3, 1] if revives else [3, 1, 2]  # rows of partition a come first
    assert read_new_rows(STORAGE, NewRowRange(result.file, 0, 10)).tolist() == expected
    assert result.rows_by_path == [("a", 1), ("b", len(expected) - 1)]
    assert result.lists_elsewhere
    living = read_hits(STORAGE, HitBatch(first, 0), result.file)
    assert (2 in living.new.tolist(), 4 in living.new.tolist()) == (revives, False)

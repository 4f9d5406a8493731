"""What an insert writes: rows behind those of a small file or into new groups, merged by key if duplicates are not allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.filegroup import base_write as filegroup_write
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.merge.overwrite import EventTimeOrdering, OverwriteWithLatest
from penstock.timeline.commit_file import WriteStat
from penstock.write.tasks.insert import insert_bucket
from penstock.write.tasks.task import InsertBucket, InsertTask
from tests.unit.write.engine import (
    DELETABLE,
    TRIPS,
    read_base,
    settings_at,
    stage_pieces,
    table_of,
    task_rows_settings,
    trips,
    write_base,
)

OLD = trips(("a", "c", 10, "a old"), ("b", "c", 10, "b old"))


def store(folder: Path, new: pa.Table, base: BaseFile | None = None, *, by_key: bool = False, **task: Any) -> list[WriteStat]:
    settings = settings_at(folder, new.schema, "002")
    staging, pieces = stage_pieces(settings, new)
    bucket = InsertBucket("c", tuple(pieces), FileSlice("c", base.file_id, base.instant, base) if base else None)
    loading = task_rows_settings(staging, None) if by_key else None
    return insert_bucket(InsertTask(bucket, settings, staging, task.get("merger", OverwriteWithLatest()), loading))


def old_base(folder: Path) -> BaseFile:
    return write_base(settings_at(folder, TRIPS, "001"), OLD, "c")


def counts(stat: WriteStat) -> tuple[int, int, int, int]:
    return stat.num_writes, stat.num_update_writes, stat.num_deletes, stat.num_inserts


def values(folder: Path, stat: WriteStat, *columns: str) -> list[tuple[Any, ...]]:
    rows = read_base(BaseFile(f"{folder}/{stat.path}", stat.file_id, "002", stat.file_size_in_bytes)).to_pylist()
    return [tuple(row[c] for c in columns) for row in rows]


def test_rows_are_added_to_a_small_file_whatever_their_keys(tmp_path: Path) -> None:
    (stat,) = store(tmp_path, trips(("a", "c", 1, "again"), ("n", "c", 1, "n"), ("n", "c", 2, "n2")), old_base(tmp_path))
    assert values(tmp_path, stat, "id", "v") == [("a", "a old"), ("b", "b old"), ("a", "again"), ("n", "n"), ("n", "n2")]
    assert counts(stat) == (5, 0, 0, 3)
    assert stat.prev_commit == "001"


def test_if_duplicates_are_not_allowed_rows_are_merged_by_key_and_the_last_one_wins(tmp_path: Path) -> None:
    new = trips(("a", "c", 1, "again"), ("n", "c", 9, "n"), ("n", "c", 2, "n2"))
    (stat,) = store(tmp_path, new, old_base(tmp_path), by_key=True)
    assert values(tmp_path, stat, "id", "v") == [("a", "again"), ("b", "b old"), ("n", "n2")]
    assert counts(stat) == (3, 1, 0, 1)


def test_rows_that_are_merged_by_key_are_merged_by_the_payload(tmp_path: Path) -> None:
    new = trips(("a", "c", 1, "late"), ("b", "c", 11, "newer"))
    (stat,) = store(tmp_path, new, old_base(tmp_path), by_key=True, merger=EventTimeOrdering("ts"))
    assert values(tmp_path, stat, "id", "v") == [("a", "a old"), ("b", "newer")]


def test_duplicates_in_a_new_group_are_all_stored(tmp_path: Path) -> None:
    (stat,) = store(tmp_path, trips(("n", "c", 9, "n"), ("n", "c", 2, "n2")), by_key=True)
    assert values(tmp_path, stat, "id", "v", "_hoodie_commit_seqno") == [("n", "n", "002_0_0"), ("n", "n2", "002_0_1")]
    assert counts(stat) == (2, 0, 0, 2)
    assert stat.prev_commit == "null"


def test_rows_marked_as_deleted_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = table_of(DELETABLE, ("x", "c", 1, "x", False), ("y", "c", 1, "y", True), ("z", "c", 1, "z", None))
    (stat,) = store(tmp_path / "new", rows)
    assert values(tmp_path / "new", stat, "id") == [("x",), ("z",)]
    assert counts(stat) == (2, 0, 1, 2)
    (stat,) = store(tmp_path, rows, old_base(tmp_path))
    assert values(tmp_path, stat, "id") == [("a",), ("b",), ("x",), ("z",)]
    assert counts(stat) == (4, 0, 1, 3)  # added to a file, a delete counts as insert too


def test_a_bucket_with_deletes_only_creates_no_file(tmp_path: Path) -> None:
    assert store(tmp_path, table_of(DELETABLE, ("y", "c", 1, "y", True))) == []
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_full_file_is_followed_by_another_and_sequence_numbers_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filegroup_write, "ROW_GROUP_ROWS", 10)
    settings = settings_at(tmp_path, TRIPS, "002", max_file_bytes=2_000)
    staging, pieces = stage_pieces(settings, trips(*((f"k{n:03}", "c", n, "x" * 50) for n in range(60))))
    found = insert_bucket(InsertTask(InsertBucket("c", tuple(pieces)), settings, staging, OverwriteWithLatest()))
    assert len(found) > 1
    assert sum(s.num_inserts for s in found) == 60
    assert [s.file_id.rsplit("-", 1)[1] for s in found] == [str(i) for i in range(len(found))]
    numbers = [seqno for s in found for (seqno,) in values(tmp_path, s, "_hoodie_commit_seqno")]
    assert numbers == [f"002_0_{n}" for n in range(60)]

"""Staged rows: cut by partition path, in order, read back as pieces."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import StorageError
from penstock.filegroup.task_output import FileSettings
from penstock.storage import ArrowFile, LocalStorage
from penstock.workers.part_scope import Part, enter_part
from penstock.write.rows import staging as stage_module
from tests.unit.write.engine import TRIPS, settings_at, stage_pieces, trips


@pytest.fixture
def files(tmp_path: Path) -> FileSettings:
    return settings_at(tmp_path, TRIPS)


def test_staged_rows_are_cut_by_partition_and_keep_their_order(files: FileSettings) -> None:
    first = trips(("a", "x", 1, "1"), ("b", "y", 1, "2"), ("c", "x", 1, "3"))
    second = trips(("d", "y", 1, "4"), ("e", None, 1, "5"), ("f", "x", 1, "6"))
    staging, pieces = stage_pieces(files, first, second, path="city")
    found = {p.path: t["v"].to_pylist() for p, t in zip(pieces, stage_module.read_pieces(staging, pieces), strict=True)}
    assert found == {"x": ["1", "3", "6"], "y": ["2", "4"], "__HIVE_DEFAULT_PARTITION__": ["5"]}


def test_staged_rows_are_written_when_enough_have_come(files: FileSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_FLUSH_BYTES", 1)
    staging, pieces = stage_pieces(files, trips(("a", "x", 1, "1")), trips(("b", "x", 1, "2")), path="city")
    assert [(p.path, p.batch, p.rows) for p in pieces] == [("x", 0, 1), ("x", 1, 1)]
    assert [t["v"].to_pylist() for t in stage_module.read_pieces(staging, pieces)] == [["1"], ["2"]]


def test_a_cut_piece_reads_its_own_rows(files: FileSettings) -> None:
    staging, (piece,) = stage_pieces(files, trips(*((f"k{n}", "x", n, str(n)) for n in range(5))))
    (table,) = stage_module.read_pieces(staging, [piece.cut(1, 3).cut(1, 2)])
    assert table["v"].to_pylist() == ["2", "3"]


def test_an_empty_batch_leaves_no_file(files: FileSettings) -> None:
    staging, pieces = stage_pieces(files, trips())
    assert pieces == []
    assert not Path(staging.folder).exists()


def test_a_full_disk_while_staging_is_a_storage_error(files: FileSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "create", lambda self, path: pa.OSFile("/dev/full", "wb"))
    with pytest.raises(StorageError, match="No space left"):
        stage_pieces(files, trips(("a", "x", 1, "1")))


def batches_in(pieces: list[stage_module.Piece]) -> list[int]:
    (file,) = {piece.file for piece in pieces}
    assert pa.ipc.open_file(pa.memory_map(file)).num_record_batches == pieces[-1].batch + 1
    return [piece.batch for piece in pieces]


def test_partitions_of_few_rows_share_a_batch_and_a_large_one_has_its_own(
    files: FileSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = trips(*((f"k{n}", f"p{n % 10}", n, str(n)) for n in range(100)))
    staging, pieces = stage_pieces(files, rows, rows, path="city")
    assert batches_in(pieces) == [0] * 10
    assert [piece.offset for piece in pieces] == list(range(0, 200, 20))
    of_path = [table["v"].to_pylist() for table in stage_module.read_pieces(staging, pieces)]
    assert of_path == [[str(n) for n in range(path, 100, 10)] * 2 for path in range(10)]

    Path(staging.folder).rename(f"{staging.folder}-shared")
    monkeypatch.setattr(stage_module, "_SHARED_BATCH_BYTES", 500)
    mixed = trips(("a", "few", 1, "1"), *((f"k{n}", "many", n, str(n)) for n in range(100)), ("b", "last", 1, "2"))
    staging, pieces = stage_pieces(files, mixed, path="city")
    assert [(piece.path, piece.offset) for piece in pieces] == [("few", 0), ("many", 0), ("last", 0)]
    assert batches_in(pieces) == [0, 1, 2]
    assert [table.num_rows for table in stage_module.read_pieces(staging, pieces)] == [1, 100, 1]


def test_tasks_of_a_part_read_a_batch_that_they_share_once(files: FileSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_SHARED_BATCH_BYTES", 200)
    rows = trips(*((f"k{n}", f"path{n % 12:02}", n, str(n)) for n in range(24)))
    staging, pieces = stage_pieces(files, rows, path="city")
    batches = {piece.batch for piece in pieces}
    assert 1 < len(batches) < len(pieces)
    read: list[int] = []
    get_batch = ArrowFile.get_batch

    def note(self: ArrowFile, number: int) -> pa.RecordBatch:
        read.append(number)
        return get_batch(self, number)

    monkeypatch.setattr(ArrowFile, "get_batch", note)

    def read_twice() -> list[list[str]]:
        """Read each piece as a task of its own, in two orders."""
        each = [*pieces, *reversed(pieces)]
        return [table["v"].to_pylist() for piece in each for table in stage_module.read_pieces(staging, [piece])]

    expected = read_twice()
    assert len(read) == 2 * len(pieces)
    read.clear()
    with enter_part(Part(shared={})):
        assert read_twice() == expected
    assert sorted(read) == sorted(batches)
    read.clear()
    monkeypatch.setattr(stage_module, "_KEPT_BATCHES", 1)
    with enter_part(Part(shared={})):
        assert read_twice() == expected
    assert len(read) == 2 * len(batches) - 1

"""Markers: every file is announced, what nobody wants is removed, latecomers are refused."""

from __future__ import annotations

import uuid

import pytest

from penstock.errors import AlreadyExists, StorageError
from penstock.filegroup.markers import (
    Marker,
    MarkerType,
    check_open,
    create_marker,
    delete_markers,
    markers_folder,
    open_write,
    read_markers,
    reconcile,
    seal,
    work_folder,
)
from penstock.storage import MemoryStorage, walk

BASE, TIME = "/t", "20240101000000000"


@pytest.fixture
def storage() -> MemoryStorage:
    """With a write under way."""
    storage = MemoryStorage(uuid.uuid4().hex)
    open_write(storage, BASE, TIME)
    return storage


def announce(storage: MemoryStorage, path: str, kind: MarkerType = MarkerType.CREATE, *, write: bool = True) -> None:
    create_marker(storage, BASE, TIME, path, kind)
    if write:
        storage.write_new(f"{BASE}/{path}", b"data")


def test_a_marker_lies_where_hudi_looks_for_it(storage: MemoryStorage) -> None:
    announce(storage, "a/b/f_1.parquet", MarkerType.MERGE)
    assert storage.read(f"{BASE}/.hoodie/.temp/{TIME}/a/b/f_1.parquet.marker.MERGE") == b""


def test_markers_are_read_back(storage: MemoryStorage) -> None:
    announce(storage, "f.parquet")
    announce(storage, "x.marker.y/g.parquet", MarkerType.MERGE)
    announce(storage, "p/.h.log.1_0-0-0", MarkerType.APPEND)
    assert sorted(read_markers(storage, BASE, TIME), key=lambda m: m.file_path) == [
        Marker("f.parquet", MarkerType.CREATE),
        Marker("p/.h.log.1_0-0-0", MarkerType.APPEND),
        Marker("x.marker.y/g.parquet", MarkerType.MERGE),
    ]


def test_markers_of_a_timeline_server_are_read_too(storage: MemoryStorage) -> None:
    folder = f"{BASE}/.hoodie/.temp/{TIME}"
    storage.write_new(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.write_new(f"{folder}/MARKERS0", b"p/f.parquet.marker.CREATE\np/g.parquet.marker.MERGE\n")
    storage.write_new(f"{folder}/MARKERS7", b"q/h.parquet.marker.APPEND")
    assert sorted(m.file_path for m in read_markers(storage, BASE, TIME)) == ["p/f.parquet", "p/g.parquet", "q/h.parquet"]


def test_a_write_without_markers_has_none(storage: MemoryStorage) -> None:
    assert read_markers(storage, BASE, TIME) == []


def test_a_file_is_announced_once(storage: MemoryStorage) -> None:
    announce(storage, "p/f.parquet")
    with pytest.raises(AlreadyExists, match=r"f\.parquet"):
        create_marker(storage, BASE, TIME, "p/f.parquet", MarkerType.CREATE)


def test_files_nobody_counted_are_removed_and_others_stay(storage: MemoryStorage) -> None:
    announce(storage, "p/kept.parquet")
    announce(storage, "p/lost.parquet")
    announce(storage, "p/never-written.parquet", write=False)
    announce(storage, "p/.log.1", MarkerType.APPEND)
    assert reconcile(storage, BASE, TIME, ["p/kept.parquet"]) == ["p/lost.parquet"]
    assert sorted(f.name for f in storage.list(f"{BASE}/p")) == [".log.1", "kept.parquet"]


def test_nothing_can_be_announced_once_the_write_is_sealed(storage: MemoryStorage) -> None:
    announce(storage, "p/f.parquet")
    check_open(storage, BASE, TIME)
    assert seal(storage, BASE, TIME)
    with pytest.raises(StorageError, match="closed"):
        create_marker(storage, BASE, TIME, "p/late.parquet", MarkerType.CREATE)
    with pytest.raises(StorageError):
        check_open(storage, BASE, TIME)


def test_a_latecomers_marker_makes_its_file_known_even_if_it_came_before_the_seal(storage: MemoryStorage) -> None:
    """It was announced, so reconciling after the seal finds whatever it may write."""
    announce(storage, "p/late.parquet", write=False)
    seal(storage, BASE, TIME)
    storage.write_new(f"{BASE}/p/late.parquet", b"")
    assert reconcile(storage, BASE, TIME, []) == ["p/late.parquet"]


def test_a_partition_may_have_any_name_a_folder_may_have(storage: MemoryStorage) -> None:
    for name in ("open", "staged", "MARKERS0", "MARKERS.type", "x.marker.CREATE"):
        announce(storage, f"{name}/f.parquet")
    assert len(read_markers(storage, BASE, TIME)) == 5
    seal(storage, BASE, TIME)
    with pytest.raises(StorageError):
        check_open(storage, BASE, TIME)


def test_a_write_is_sealed_by_one_only(storage: MemoryStorage) -> None:
    """A writer about to publish and another that rolls it back: the second of them knows."""
    assert seal(storage, BASE, TIME)
    assert not seal(storage, BASE, TIME)


def test_nothing_but_markers_lies_where_hudi_looks_for_markers(storage: MemoryStorage) -> None:
    """Older releases take every file there for one when they roll a write back."""
    announce(storage, "p/f.parquet")
    storage.write_new(f"{work_folder(BASE, TIME)}/staged/rows.arrow", b"")
    assert [f.path for f in walk(storage, markers_folder(BASE, TIME))] == [
        f"{BASE}/.hoodie/.temp/{TIME}/p/f.parquet.marker.CREATE"
    ]


def test_markers_of_one_write_are_forgotten_and_others_stay(storage: MemoryStorage) -> None:
    other = "20240101000000001"
    announce(storage, "p/f.parquet")
    open_write(storage, BASE, other)
    create_marker(storage, BASE, other, "p/g.parquet", MarkerType.CREATE)
    delete_markers(storage, BASE, TIME)
    assert [f.name for f in storage.list(f"{BASE}/.hoodie/.temp")] == [other, f"penstock-{other}"]


def test_a_task_that_comes_when_all_is_forgotten_is_refused(storage: MemoryStorage) -> None:
    """Nothing opens a write again: an executor that was cut off may come back hours later."""
    delete_markers(storage, BASE, TIME)
    with pytest.raises(StorageError, match="closed"):
        create_marker(storage, BASE, TIME, "p/late.parquet", MarkerType.CREATE)

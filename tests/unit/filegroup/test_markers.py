"""Markers: every file has one before it is created, unwanted files are removed, and late tasks are refused."""

from __future__ import annotations

import uuid

import pytest

from penstock.commit.markers import delete_markers, open_write, read_markers, reconcile, seal
from penstock.errors import AlreadyExists, StorageError
from penstock.filegroup.markers import Marker, MarkerStyle, MarkerType, announce, check_open, markers_folder, work_folder
from penstock.storage import MemoryStorage, walk

BASE = "/t"
TIME = "20240101000000000"


@pytest.fixture
def storage() -> MemoryStorage:
    """With a write under way."""
    storage = MemoryStorage(uuid.uuid4().hex)
    open_write(storage, BASE, TIME)
    return storage


STYLE = pytest.mark.parametrize("style", list(MarkerStyle))


def make(
    storage: MemoryStorage,
    path: str,
    kind: MarkerType = MarkerType.CREATE,
    *,
    write: bool = True,
    style: MarkerStyle = MarkerStyle.DIRECT,
) -> None:
    announce(storage, BASE, TIME, [Marker(path, kind)], style)
    if write:
        storage.write_new(f"{BASE}/{path}", b"data")


def test_a_marker_is_where_hudi_looks_for_it(storage: MemoryStorage) -> None:
    make(storage, "a/b/f_1.parquet", MarkerType.MERGE)
    assert storage.read(f"{BASE}/.hoodie/.temp/{TIME}/a/b/f_1.parquet.marker.MERGE") == b""


@STYLE
def test_markers_are_read_back(storage: MemoryStorage, style: MarkerStyle) -> None:
    make(storage, "f.parquet", style=style)
    make(storage, "x.marker.y/g.parquet", MarkerType.MERGE, style=style)
    make(storage, "p/.h.log.1_0-0-0", MarkerType.APPEND, style=style)
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


def test_one_marker_file_announces_many_files(storage: MemoryStorage) -> None:
    other = "20240101000000001"
    open_write(storage, BASE, other, MarkerStyle.COLLECTED)
    for task in (0, 0, 1):
        markers = [Marker(f"p{task}/{i}.parquet", MarkerType.CREATE) for i in range(3)]
        announce(storage, BASE, other, markers, MarkerStyle.COLLECTED, task)
    folder = markers_folder(BASE, other)
    assert {f.name: storage.read(f.path) for f in storage.list(folder)} == {
        "MARKERS.type": b"TIMELINE_SERVER_BASED",
        "MARKERS0": b"p0/0.parquet.marker.CREATE\np0/1.parquet.marker.CREATE\np0/2.parquet.marker.CREATE\n",
        "MARKERS256": b"p0/0.parquet.marker.CREATE\np0/1.parquet.marker.CREATE\np0/2.parquet.marker.CREATE\n",
        "MARKERS1": b"p1/0.parquet.marker.CREATE\np1/1.parquet.marker.CREATE\np1/2.parquet.marker.CREATE\n",
    }
    assert len(read_markers(storage, BASE, other)) == 9


@pytest.mark.parametrize("torn", ["q", "q/g.parquet", "q/g.parquet.marker.", "q/g.parquet.marker.CREA"])
def test_a_line_that_was_not_written_to_its_end_announces_nothing(storage: MemoryStorage, torn: str) -> None:
    storage.write_new(f"{markers_folder(BASE, TIME)}/MARKERS0", f"p/f.parquet.marker.CREATE\n{torn}".encode())
    assert read_markers(storage, BASE, TIME) == [Marker("p/f.parquet", MarkerType.CREATE)]


@STYLE
def test_a_line_break_in_a_name_is_part_of_it(storage: MemoryStorage, style: MarkerStyle) -> None:
    make(storage, "a\nb/f.parquet", style=style)
    assert read_markers(storage, BASE, TIME) == [Marker("a\nb/f.parquet", MarkerType.CREATE)]


def test_a_write_without_markers_has_none(storage: MemoryStorage) -> None:
    assert read_markers(storage, BASE, TIME) == []


def test_a_file_is_announced_once(storage: MemoryStorage) -> None:
    make(storage, "p/f.parquet")
    with pytest.raises(AlreadyExists, match=r"f\.parquet"):
        announce(storage, BASE, TIME, [Marker("p/f.parquet", MarkerType.CREATE)])


@STYLE
def test_announced_files_without_a_write_stat_are_removed_and_others_stay(storage: MemoryStorage, style: MarkerStyle) -> None:
    make(storage, "p/kept.parquet", style=style)
    make(storage, "p/lost.parquet", style=style)
    make(storage, "p/never-written.parquet", write=False, style=style)
    make(storage, "p/.kept.log.1_0-0-1", MarkerType.APPEND, style=style)
    make(storage, "p/.lost.log.1_0-0-0", MarkerType.APPEND, style=style)
    removed = reconcile(storage, BASE, TIME, ["p/kept.parquet", "p/.kept.log.1_0-0-1"])
    assert removed == ["p/.lost.log.1_0-0-0", "p/lost.parquet"]
    assert sorted(f.name for f in storage.list(f"{BASE}/p")) == [".kept.log.1_0-0-1", "kept.parquet"]


def test_nothing_can_be_announced_once_the_write_is_sealed(storage: MemoryStorage) -> None:
    make(storage, "p/f.parquet")
    check_open(storage, BASE, TIME)
    assert seal(storage, BASE, TIME)
    with pytest.raises(StorageError, match="closed"):
        announce(storage, BASE, TIME, [Marker("p/late.parquet", MarkerType.CREATE)])
    with pytest.raises(StorageError):
        check_open(storage, BASE, TIME)


def test_a_latecomers_marker_makes_its_file_known_even_if_it_came_before_the_seal(storage: MemoryStorage) -> None:
    """It was announced, so reconciling after the seal finds whatever it may write."""
    make(storage, "p/late.parquet", write=False)
    seal(storage, BASE, TIME)
    storage.write_new(f"{BASE}/p/late.parquet", b"")
    assert reconcile(storage, BASE, TIME, []) == ["p/late.parquet"]


def test_a_partition_may_have_any_name_a_folder_may_have(storage: MemoryStorage) -> None:
    for name in ("open", "staged", "MARKERS0", "MARKERS.type", "x.marker.CREATE"):
        make(storage, f"{name}/f.parquet")
    assert len(read_markers(storage, BASE, TIME)) == 5
    seal(storage, BASE, TIME)
    with pytest.raises(StorageError):
        check_open(storage, BASE, TIME)


def test_only_the_first_seal_of_a_write_returns_true(storage: MemoryStorage) -> None:
    """A writer about to publish and another that rolls it back: the second of them knows."""
    assert seal(storage, BASE, TIME)
    assert not seal(storage, BASE, TIME)


def test_nothing_but_markers_lies_where_hudi_looks_for_markers(storage: MemoryStorage) -> None:
    """Older releases take every file there for one when they roll a write back."""
    make(storage, "p/f.parquet")
    storage.write_new(f"{work_folder(BASE, TIME)}/staged/rows.arrow", b"")
    assert [f.path for f in walk(storage, markers_folder(BASE, TIME))] == [
        f"{BASE}/.hoodie/.temp/{TIME}/p/f.parquet.marker.CREATE"
    ]


def test_markers_of_one_write_are_deleted_and_others_stay(storage: MemoryStorage) -> None:
    other = "20240101000000001"
    make(storage, "p/f.parquet")
    open_write(storage, BASE, other)
    announce(storage, BASE, other, [Marker("p/g.parquet", MarkerType.CREATE)])
    delete_markers(storage, BASE, TIME)
    assert [f.name for f in storage.list(f"{BASE}/.hoodie/.temp")] == [other, f"penstock-{other}"]


def test_a_task_that_comes_after_the_markers_were_deleted_is_refused(storage: MemoryStorage) -> None:
    """Nothing opens a write again: an executor that was cut off may come back hours later."""
    delete_markers(storage, BASE, TIME)
    with pytest.raises(StorageError, match="closed"):
        announce(storage, BASE, TIME, [Marker("p/late.parquet", MarkerType.CREATE)])

"""The promises of the storage protocol, checked for each implementation."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import AlreadyExists, OptionError, StorageError, Unsupported
from penstock.storage import LocalStorage, MemoryStorage, Storage, join, open_storage, walk

Place = tuple[Storage, str]


SERVERS = ("moto", "seaweedfs", "azurite", "gcs", "hdfs")


@pytest.fixture(params=["local", "memory", *(pytest.param(name, marks=pytest.mark.server) for name in SERVERS)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return MemoryStorage(uuid.uuid4().hex), "/base"
    if request.param == "local":
        return LocalStorage(), str(tmp_path)
    storage, base = request.getfixturevalue(request.param).open()
    return storage, base


def names(storage: Storage, folder: str) -> list[str]:
    return [f.name for f in storage.list(folder)]


def fill(storage: Storage, path: str, data: bytes) -> None:
    with storage.create(path) as file:
        file.write(data)


# --- publishing


def test_a_new_file_holds_what_was_written(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/a/b/file", b"content")
    assert storage.read(f"{base}/a/b/file") == b"content"


def test_writing_a_new_file_does_not_replace_an_existing_one(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"first")
    with pytest.raises(AlreadyExists):
        storage.write_new(f"{base}/file", b"second")
    assert storage.read(f"{base}/file") == b"first"
    assert names(storage, base) == ["file"]


def test_an_empty_file_is_a_file(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"")
    assert storage.read(f"{base}/file") == b""
    info = storage.stat(f"{base}/file")
    assert info is not None
    assert (info.size_bytes, info.is_dir) == (0, False)


def test_one_of_many_threads_creates_the_file(place: Place) -> None:
    storage, base = place
    together = threading.Barrier(8)

    def attempt(number: int) -> bool:
        together.wait()
        try:
            storage.write_new(f"{base}/file", str(number).encode())
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, did in enumerate(pool.map(attempt, range(8))) if did]
    assert [str(n).encode() for n in won] == [storage.read(f"{base}/file")]


def _win(path: str, number: int) -> int:
    """Return how many of a hundred names this process was the first to create."""
    won = 0
    for i in range(100):
        try:
            LocalStorage().write_new(f"{path}/{i}", str(number).encode())
        except AlreadyExists:
            continue
        won += 1
    return won


def test_one_of_many_processes_creates_each_file(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        won = pool.starmap(_win, [(str(tmp_path), n) for n in range(4)])
    assert sum(won) == 100
    assert names(LocalStorage(), str(tmp_path)) == sorted(map(str, range(100)))


def test_replacing_changes_the_content_or_creates_the_file(place: Place) -> None:
    storage, base = place
    storage.replace(f"{base}/x/file", b"old")
    storage.replace(f"{base}/x/file", b"new")
    assert storage.read(f"{base}/x/file") == b"new"
    assert names(storage, f"{base}/x") == ["file"]


def test_a_reader_sees_the_old_content_or_the_new_one(place: Place) -> None:
    storage, base = place
    path = f"{base}/file"
    ends = threading.Event()
    storage.replace(path, b"a" * 50_000)
    seen: set[bytes] = set()

    def look() -> None:
        while not ends.is_set():
            seen.add(storage.read(path))

    reader = threading.Thread(target=look)
    reader.start()
    for i in range(40):
        storage.replace(path, (b"a", b"b")[i % 2] * 50_000)
    ends.set()
    reader.join()
    assert seen <= {b"a" * 50_000, b"b" * 50_000}


# --- data files


def test_a_stream_that_was_closed_is_a_file(place: Place) -> None:
    storage, base = place
    with storage.create(f"{base}/p/data") as file:
        file.write(b"one ")
        file.write(b"two")
        assert file.tell() == 7
    storage.sync([f"{base}/p/data"])
    assert storage.read(f"{base}/p/data") == b"one two"


def test_a_stream_does_not_replace_an_existing_file(place: Place) -> None:
    storage, base = place
    fill(storage, f"{base}/data", b"first")
    with pytest.raises(AlreadyExists), storage.create(f"{base}/data") as file:
        file.write(b"second")
    assert storage.read(f"{base}/data") == b"first"


@pytest.mark.parametrize("opened", [lambda s, p: s.open(p), lambda s, p: s.map(p)], ids=["open", "map"])
def test_parquet_is_read_in_any_order(place: Place, opened: Callable[[Storage, str], pa.NativeFile]) -> None:
    storage, base = place
    table = pa.table({"a": list(range(1000)), "b": ["x"] * 1000})
    with storage.create(f"{base}/t.parquet") as sink:
        pq.write_table(table, sink, row_group_size=100)
    with opened(storage, f"{base}/t.parquet") as source:
        file = pq.ParquetFile(source)
        assert file.read_row_group(9)["a"].to_pylist() == list(range(900, 1000))
        assert file.read().equals(table)


def test_many_files_are_synced_at_once(place: Place) -> None:
    storage, base = place
    paths = [f"{base}/{i}" for i in range(20)]
    for path in paths:
        fill(storage, path, b"x")
    storage.sync(paths)
    assert len(storage.list(base)) == 20


# --- looking


@pytest.mark.parametrize(
    "look", [lambda s, p: s.read(p), lambda s, p: s.open(p), lambda s, p: s.map(p)], ids=["read", "open", "map"]
)
@pytest.mark.parametrize("path", ["nothing", "file/below"])
def test_reading_a_missing_file_raises_an_error(place: Place, look: Callable[[Storage, str], object], path: str) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"")
    with pytest.raises(FileNotFoundError):
        look(storage, f"{base}/{path}")


def test_a_listing_has_the_direct_children_by_name(place: Place) -> None:
    storage, base = place
    for name in ("b", "a", "c/d/e", "B", "é"):
        storage.write_new(f"{base}/{name}", name.encode())
    found = storage.list(base)
    assert [(f.name, f.is_dir) for f in found] == [
        ("B", False),
        ("a", False),
        ("b", False),
        ("c", True),
        ("é", False),
    ]
    assert [f.path for f in found] == [f"{base}/{n}" for n in ("B", "a", "b", "c", "é")]
    assert [f.size_bytes for f in found] == [1, 1, 1, 0, 2]


@pytest.mark.parametrize("path", ["nothing", "file", "file/below"])
def test_a_listing_of_a_path_that_is_no_folder_is_empty(place: Place, path: str) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"x")
    assert storage.list(f"{base}/{path}") == []


def test_a_missing_path_has_no_stat(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"abc")
    assert storage.stat(f"{base}/nothing") is None
    assert storage.stat(f"{base}/file/below") is None
    file = storage.stat(f"{base}/file")
    folder = storage.stat(base)
    assert file is not None
    assert folder is not None
    assert (file.size_bytes, file.is_dir, folder.is_dir) == (3, False, True)
    assert file.modified_ms > 1_600_000_000_000


def test_a_listing_loses_nothing_while_others_create_and_delete(place: Place) -> None:
    """A timeline is listed while other writers publish through temporary names in the same folder."""
    storage, base = place
    for i in range(20):
        storage.write_new(f"{base}/kept-{i:02}", b"")
    ends = threading.Event()

    def churn() -> None:
        while not ends.is_set():
            storage.replace(f"{base}/other", b"x")
            storage.delete(f"{base}/other")

    other = threading.Thread(target=churn)
    other.start()
    try:
        for _ in range(150):
            kept = [n for n in names(storage, base) if n.startswith("kept")]
            assert len(kept) == 20
    finally:
        ends.set()
        other.join()


def test_a_walk_yields_every_file_below(place: Place) -> None:
    storage, base = place
    for name in ("a/1", "a/b/2", "3"):
        storage.write_new(f"{base}/{name}", b"")
    assert sorted(f.path for f in walk(storage, base)) == [f"{base}/{n}" for n in ("3", "a/1", "a/b/2")]


# --- removing and moving


def test_deleting_returns_whether_the_file_existed(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"")
    assert storage.delete(f"{base}/file") is True
    assert storage.delete(f"{base}/file") is False
    assert storage.delete(f"{base}/no/such") is False
    assert storage.stat(f"{base}/file") is None


def test_deleting_a_tree_leaves_its_siblings(place: Place) -> None:
    storage, base = place
    for name in ("tree/a/b", "tree/c", "treehouse/d"):
        storage.write_new(f"{base}/{name}", b"")
    storage.delete_tree(f"{base}/tree")
    storage.delete_tree(f"{base}/tree")
    assert [f.path for f in walk(storage, base)] == [f"{base}/treehouse/d"]


def test_a_tree_is_deleted_while_others_delete_in_it(place: Place) -> None:
    storage, base = place
    for i in range(200):
        storage.write_new(f"{base}/tree/{i % 5}/{i}", b"")
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(storage.delete_tree, f"{base}/tree") for _ in range(4)]:
            done.result()
    assert storage.stat(f"{base}/tree") is None


def test_deleting_a_tree_at_a_file_does_nothing(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"x")
    storage.delete_tree(f"{base}/file")
    assert storage.read(f"{base}/file") == b"x"


def test_only_an_empty_folder_is_removed(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/folder/file", b"x")
    assert storage.remove_empty(f"{base}/folder") is False
    storage.delete(f"{base}/folder/file")
    assert storage.remove_empty(f"{base}/folder") is True
    assert storage.remove_empty(f"{base}/folder") is True
    assert storage.stat(f"{base}/folder") is None


def test_making_a_folder_that_exists_does_nothing(place: Place) -> None:
    storage, base = place
    storage.make_dirs(f"{base}/a/b")
    storage.write_new(f"{base}/a/b/file", b"x")
    storage.make_dirs(f"{base}/a/b")
    assert names(storage, f"{base}/a/b") == ["file"]


def test_a_moved_tree_is_at_its_new_place_only(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/old/a/file", b"x")
    storage.move_tree(f"{base}/old", f"{base}/new")
    assert [f.path for f in walk(storage, base)] == [f"{base}/new/a/file"]
    assert storage.read(f"{base}/new/a/file") == b"x"


def test_a_moved_file_is_at_its_new_place_only(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/old", b"x")
    storage.write_new(f"{base}/taken", b"y")
    storage.move_tree(f"{base}/old", f"{base}/new")
    with pytest.raises(AlreadyExists):
        storage.move_tree(f"{base}/new", f"{base}/taken")
    assert {f.path: storage.read(f.path) for f in walk(storage, base)} == {f"{base}/new": b"x", f"{base}/taken": b"y"}


def test_a_tree_is_not_moved_onto_another(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/old/file", b"x")
    storage.write_new(f"{base}/new/file", b"y")
    with pytest.raises(AlreadyExists):
        storage.move_tree(f"{base}/old", f"{base}/new")
    with pytest.raises(StorageError):
        storage.move_tree(f"{base}/nothing", f"{base}/newer")
    assert sorted(f.path for f in walk(storage, base)) == [f"{base}/new/file", f"{base}/old/file"]


# --- as a value


def test_a_storage_can_be_pickled(place: Place) -> None:
    storage, base = place
    storage.write_new(f"{base}/file", b"x")
    again = pickle.loads(pickle.dumps(storage))
    assert again == storage
    assert again.read(f"{base}/file") == b"x"


# --- the local file system


def crc_of(path: Path) -> Path:
    return path.parent / f".{path.name}.crc"


@pytest.mark.parametrize("change", ["replace", "delete", "write_new"])
def test_a_change_of_a_file_removes_hadoops_checksum_of_it_and_of_no_other(tmp_path: Path, change: str) -> None:
    file = tmp_path / "hoodie.properties"
    other = tmp_path / "other"
    for path in (file, other):
        path.write_bytes(b"old")
        crc_of(path).write_bytes(b"crc")
    if change == "write_new":
        file.unlink()
    action = getattr(LocalStorage(), change)
    action(str(file)) if change == "delete" else action(str(file), b"new")
    assert not crc_of(file).exists()
    assert crc_of(other).exists()


def test_a_failed_publication_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(AlreadyExists):
        LocalStorage().write_new(str(tmp_path), b"x")
    assert [p.name for p in tmp_path.parent.iterdir() if p.name.endswith(".tmp")] == []


@pytest.mark.parametrize("change", ["write_new", "replace", "create", "make_dirs"])
def test_a_path_below_a_file_is_an_error_of_the_storage(tmp_path: Path, change: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    arguments = [b"x"] if change in ("write_new", "replace") else []
    with pytest.raises(StorageError):
        getattr(LocalStorage(), change)(str(tmp_path / "file" / "below"), *arguments)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_an_error_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(StorageError):
        LocalStorage().list(str(tmp_path / "closed"))


def test_a_dangling_link_does_not_hide_the_rest_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    assert names(LocalStorage(), str(tmp_path)) == ["file"]


def test_a_link_out_of_a_tree_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    LocalStorage().delete_tree(str(tmp_path / "tree"))
    assert (tmp_path / "outside" / "file").exists()


# --- by path


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("/a/x:y", "/a/x:y"),
        ("/a/b c%20d", "/a/b c%20d"),
        ("file:///a/b c%20d", "/a/b c%20d"),
        ("/a/../b", "/b"),
    ],
)
def test_a_local_path_is_found_as_spark_would_find_it(path: str, found: str) -> None:
    assert open_storage(path) == (LocalStorage(), found)


def test_a_relative_path_is_below_the_working_folder() -> None:
    assert open_storage("a/b") == (LocalStorage(), os.path.join(os.getcwd(), "a/b"))


def test_a_memory_path_is_in_memory() -> None:
    assert open_storage("memory://a/b") == (MemoryStorage(), "/a/b")


@pytest.mark.parametrize("path", ["", "  ", "/a\0b", "file://host/a"])
def test_a_path_without_a_location_is_refused(path: str) -> None:
    with pytest.raises(OptionError):
        open_storage(path)


@pytest.mark.parametrize("path", ["ftp://host/a", "s4://bucket/a", "oss://bucket/a"])
def test_a_scheme_that_no_storage_serves_is_refused_with_those_that_work(path: str) -> None:
    with pytest.raises(Unsupported, match=f"{path.split(':')[0]}.*abfss.*gs.*hdfs.*s3a"):
        open_storage(path)


@pytest.mark.parametrize(
    ("parts", "joined"),
    [(("/a", "b"), "/a/b"), (("/a/", "", "b/"), "/a/b"), (("/", "a"), "/a"), (("/a", ""), "/a"), (("/",), "/")],
)
def test_joining_leaves_empty_parts_out(parts: tuple[str, ...], joined: str) -> None:
    assert join(*parts) == joined

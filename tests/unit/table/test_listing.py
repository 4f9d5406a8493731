"""Partitions and file slices by listing: only what is asked for, and only what is a partition."""

from __future__ import annotations

import uuid

import pytest

from penstock.errors import CorruptFile
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name
from penstock.options import Options
from penstock.storage import FileInfo, MemoryStorage, walk
from penstock.table.config import TableConfig
from penstock.table.listing import _find_partitions, list_base_slices, list_partitions, walk_partitions
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, write_commit
from penstock.timeline.store import load_timeline


class CountingStorage(MemoryStorage):
    """Notes which folders were listed."""

    def list(self, path: str) -> list[FileInfo]:
        LISTED.append(path)
        return super().list(path)


LISTED: list[str] = []


def table(*files: str, commits: str = "1.commit 2.commit") -> TableState:
    storage = CountingStorage(uuid.uuid4().hex)
    for file in files:
        storage.write_new(f"/t/{file}", b"")
    for name in commits.split():
        storage.write_new(f"/t/.hoodie/{name}", write_commit(CommitMetadata(operation="INSERT")))
    LISTED.clear()
    return TableState(storage, "/t", TableConfig({"hoodie.table.name": "t"}), Options({}), load_timeline(storage, "/t"))


def data(partition: str, file_id: str, instant: str) -> str:
    return f"{partition}/{base_file_name(file_id, '0-0-0', instant)}".lstrip("/")


def test_a_folder_with_the_metafile_is_a_partition_and_others_are_not() -> None:
    state = table(f"a/{PARTITION_METAFILE}", f"b/c/{PARTITION_METAFILE}", "b/x.parquet", data("stranger", "f-0", "1"), "file")
    assert list_partitions(state) == ["a", "b/c"]


def test_a_metafile_in_the_format_of_base_files_makes_a_partition() -> None:
    assert list_partitions(table(f"a/{PARTITION_METAFILE}.parquet")) == ["a"]


def test_a_table_without_partitions_is_one_partition_with_an_empty_path() -> None:
    assert list_partitions(table(PARTITION_METAFILE, data("", "f-0", "1"))) == [""]


@pytest.mark.parametrize("outer", ["", "p", "p/q"])
def test_a_table_below_a_partition_is_not_part_of_it(outer: str) -> None:
    """A recursive listing, as object stores have it, finds what a walk from folder to folder finds."""
    inner = f"{outer}/inner/a".lstrip("/")
    state = table(f"{outer}/{PARTITION_METAFILE}".lstrip("/"), data(outer, "f-0", "1"), f"{inner}/{PARTITION_METAFILE}")
    walked = list(walk_partitions(state.storage, "/t"))
    assert [path for path, _ in walked] == [outer]
    assert list(_find_partitions("/t", list(walk(state.storage, "/t")))) == walked


def test_the_folder_of_the_timeline_is_not_listed() -> None:
    state = table(f".hoodie/metadata/files/{PARTITION_METAFILE}", f"a/{PARTITION_METAFILE}")
    assert list_partitions(state) == ["a"]
    assert not any(".hoodie/metadata" in path for path in LISTED)


def test_only_partitions_that_are_asked_for_are_listed() -> None:
    files = [f"p{i}/{PARTITION_METAFILE}" for i in range(50)] + [data(f"p{i}", f"f{i}-0", "1") for i in range(50)]
    state = table(*files)
    LISTED.clear()
    assert [s.file_id for s in list_base_slices(state, ["p7"])["p7"]] == ["f7-0"]
    assert LISTED == ["/t/p7"]


def test_each_folder_is_listed_once() -> None:
    state = table(f"a/b/{PARTITION_METAFILE}", data("a/b", "f-0", "1"), f"c/{PARTITION_METAFILE}")
    LISTED.clear()
    list_base_slices(state)
    assert sorted(LISTED) == ["/t", "/t/a", "/t/a/b", "/t/c"]


def test_slices_come_by_partition_and_newest_first() -> None:
    state = table(
        *(f"{p}/{PARTITION_METAFILE}" for p in "ab"), data("a", "f-0", "1"), data("a", "f-0", "2"), data("b", "g-0", "3")
    )
    found = list_base_slices(state)
    assert {p: [(s.file_id, s.base_instant) for s in its] for p, its in found.items()} == {"a": [("f-0", "2")]}


def test_replaced_groups_are_not_read() -> None:
    state = table(f"a/{PARTITION_METAFILE}", data("a", "f-0", "1"), data("a", "g-0", "3"))
    replaced = CommitMetadata(operation="INSERT_OVERWRITE", replaced={"a": ("f-0",)})
    state.storage.write_new("/t/.hoodie/3.replacecommit", write_commit(replaced))
    state = TableState(state.storage, "/t", state.config, Options({}), load_timeline(state.storage, "/t"))
    assert [s.file_id for s in list_base_slices(state)["a"]] == ["g-0"]
    assert [s.file_id for s in list_base_slices(state, as_of="2")["a"]] == ["f-0"]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"operationType"'])
def test_a_replace_commit_that_does_not_say_what_it_replaced_stops_the_query(content: bytes) -> None:
    state = table(f"a/{PARTITION_METAFILE}", data("a", "f-0", "1"))
    state.storage.write_new("/t/.hoodie/3.replacecommit", content)
    state = TableState(state.storage, "/t", state.config, Options({}), load_timeline(state.storage, "/t"))
    with pytest.raises(CorruptFile, match=r"3\.replacecommit"):
        list_base_slices(state)

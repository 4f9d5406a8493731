"""The index that is chosen for a batch, and what is said for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock import options as o
from penstock.filegroup.model import FileSlice
from penstock.index import make_index
from penstock.options import Options, read_options
from penstock.storage import LocalStorage
from penstock.write.locate.choose_index import ChosenIndex, choose_index
from tests.unit.write.engine import settings_at, trips, write_base

LARGE = 64 * 1024 * 1024
ORDERED = [("a", "c"), ("d", "f"), ("g", "i"), ("j", "l")]
RANDOM = [("a", "x"), ("b", "w"), ("c", "z"), ("d", "y")]


def files(folder: Path, ranges: list[tuple[str, str]], *, size: int = LARGE, path: str = "c") -> list[FileSlice]:
    slices = []
    for number, ends in enumerate(ranges):
        settings = settings_at(folder / path, trips().schema, f"{number:03d}")
        base = write_base(settings, trips(*((key, path, 1, key) for key in ends)))
        slices.append(FileSlice(path, base.file_id, base.instant, replace(base, size_bytes=size)))
    return slices


def chosen(slices: dict[str, list[FileSlice]], rows: dict[str, int], index: str = "SIMPLE") -> ChosenIndex:
    return choose_index(LocalStorage(), make_index(Options({o.INDEX_TYPE.key: index})), rows, slices)


@pytest.mark.parametrize(
    ("ranges", "rows", "size", "name", "why"),
    [
        (ORDERED[:1], 9, LARGE, "SIMPLE", "no partition of the batch has more than one file group"),
        (RANDOM, 2, 1_000, "SIMPLE", "the files are small"),
        (RANDOM, 2, LARGE, "BLOOM", "2 rows for 4 files of 1 partition leave 61% of them without any"),
        (ORDERED, 9_000, LARGE, "BLOOM", "keys are ordered: the key range of a file overlaps with 0% of the others"),
        (
            RANDOM,
            9_000,
            LARGE,
            "SIMPLE",
            "keys are in no order, and 9,000 rows for 4 files of 1 partition leave 0% without a row",
        ),
    ],
    ids=["one file", "table size", "batch size: few rows", "key shape", "batch size: many rows"],
)
def test_files_and_batch_decide(tmp_path: Path, ranges: list[tuple[str, str]], rows: int, size: int, name: str, why: str) -> None:
    choice = chosen({"c": files(tmp_path, ranges, size=size)}, {"c": rows})
    assert choice.index.name == name
    assert choice.index.pruning.blooms == (name == "BLOOM")
    assert why in choice.why


def test_the_fan_out_over_partitions_decides(tmp_path: Path) -> None:
    """The same rows and files: rows that all go to one partition leave the files of the others alone."""
    slices = {path: files(tmp_path, RANDOM, path=path) for path in "abc"}
    even = chosen(slices, dict.fromkeys("abc", 8))
    skewed = chosen(slices, {"a": 22, "b": 1, "c": 1})
    assert (even.index.name, skewed.index.name) == ("SIMPLE", "BLOOM")
    assert "24 rows for 12 files of 3 partitions leave 52% of them without any" in skewed.why
    assert chosen(slices, {"a": 22, "b": 1, "c": 1}, "GLOBAL_SIMPLE").index.name == "GLOBAL_SIMPLE", "rows may be anywhere"


def test_the_reach_that_was_asked_for_stays(tmp_path: Path) -> None:
    found = chosen({"c": files(tmp_path, ORDERED)}, {"c": 9}, "GLOBAL_SIMPLE").index
    assert (found.name, found.is_global, found.moves_rows) == ("GLOBAL_BLOOM", True, True)
    assert chosen({"c": files(tmp_path / "one", ORDERED[:1], size=1)}, {"c": 9}, "GLOBAL_BLOOM").index.name == "GLOBAL_SIMPLE"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"hoodie.index.type": "BUCKET"}, "in buckets"),
        ({"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "in buckets"),
        ({"hoodie.index.type": "HBASE", "hoodie.index.hbase.zkquorum": "zk", "hoodie.index.hbase.table": "t"}, "keeps entries"),
        ({"hoodie.index.type": "INMEMORY"}, "what this process wrote"),
        ({"hoodie.index.type": "GLOBAL_BLOOM"}, None),
    ],
)
def test_an_index_that_no_other_can_follow_is_not_up_for_choice(options: dict[str, str], why: str | None) -> None:
    found = make_index(read_options({"hoodie.datasource.write.recordkey.field": "id", **options})).reason_to_keep
    assert found is None if why is None else why in (found or "")

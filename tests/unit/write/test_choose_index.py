"""The index that is chosen for a batch, and what is said for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock import options as o
from penstock.filegroup.model import FileSlice
from penstock.index import index_of
from penstock.options import Options
from penstock.storage import LocalStorage
from penstock.write.choose_index import Choice, choose_index
from tests.unit.write.engine import settings_at, trips, write_base

LARGE = 64 * 1024 * 1024
ORDERED = [("a", "c"), ("d", "f"), ("g", "i"), ("j", "l")]
RANDOM = [("a", "x"), ("b", "w"), ("c", "z"), ("d", "y")]


def chosen(folder: Path, ranges: list[tuple[str, str]], rows: int, *, size: int = LARGE, index: str = "SIMPLE") -> Choice:
    slices = []
    for number, ends in enumerate(ranges):
        settings = settings_at(folder, trips().schema, f"{number:03d}")
        base = write_base(settings, trips(*((key, "c", 1, key) for key in ends)))
        slices.append(FileSlice("c", base.file_id, base.instant, replace(base, size_bytes=size)))
    return choose_index(LocalStorage(), index_of(Options({o.INDEX_TYPE.key: index})), rows, {"c": slices})


@pytest.mark.parametrize(
    ("ranges", "rows", "size", "name", "why"),
    [
        (ORDERED[:1], 9, LARGE, "SIMPLE", "no partition of the batch has more than one file group"),
        (ORDERED, 9, 1_000, "SIMPLE", "the files are small"),
        (ORDERED, 9_000, LARGE, "BLOOM", "keys are ordered: the key range of a file overlaps with 0% of the others"),
        (RANDOM, 9_000, LARGE, "SIMPLE", "keys are in no order, and 9,000 rows for 4 files leave none without a row"),
        (RANDOM, 2, LARGE, "BLOOM", "2 rows for 4 files leave 61% of them without any"),
    ],
)
def test_files_and_batch_decide(tmp_path: Path, ranges: list[tuple[str, str]], rows: int, size: int, name: str, why: str) -> None:
    choice = chosen(tmp_path, ranges, rows, size=size)
    assert choice.index.name == name
    assert choice.index.pruning.blooms == (name == "BLOOM")
    assert why in choice.why


def test_the_reach_that_was_asked_for_stays(tmp_path: Path) -> None:
    found = chosen(tmp_path, ORDERED, 9, index="GLOBAL_SIMPLE").index
    assert (found.name, found.is_global, found.moves) == ("GLOBAL_BLOOM", True, True)
    assert chosen(tmp_path / "one", ORDERED[:1], 9, size=1, index="GLOBAL_BLOOM").index.name == "GLOBAL_SIMPLE"

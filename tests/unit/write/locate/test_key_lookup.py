"""Keys in a base file: found at their rows, and files that cannot hold them are not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CorruptFile
from penstock.filegroup import base_write as filegroup_write
from penstock.filegroup.model import BaseFile
from penstock.index.pruning import Pruning
from penstock.storage import LocalStorage
from penstock.write.locate import key_lookup
from penstock.write.locate.key_lookup import WantedKeys, holds_any_key, look_up
from tests.unit.write.engine import settings_at, trips, write_base

NOTHING = Pruning()
RANGES = Pruning(ranges=True)
BLOOMS = Pruning(blooms=True)
BOTH = Pruning(ranges=True, blooms=True)
EVERY = [NOTHING, RANGES, BLOOMS, BOTH]
STORAGE = LocalStorage()


@pytest.fixture
def groups_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the row groups whose keys were read."""
    seen: list[str] = []
    read = key_lookup.read_row_groups

    def counting(file: Any, path: str, *rest: Any) -> Iterator[pa.Table]:
        for group in read(file, path, *rest):
            seen.append(path)
            yield group

    monkeypatch.setattr(key_lookup, "read_row_groups", counting)
    return seen


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filegroup_write, "ROW_GROUP_ROWS", 2)


def base_of(folder: Path, *ids: str, instant: str = "001") -> BaseFile:
    return write_base(settings_at(folder, trips().schema, instant), trips(*((i, "c", 1, i) for i in ids)))


def keys(*texts: str) -> WantedKeys:
    return WantedKeys(pa.array(texts, pa.string()))


def pairs(base: BaseFile, wanted: WantedKeys, pruning: Pruning) -> list[tuple[int, str]]:
    found = look_up(STORAGE, [base], wanted, pruning)[0]
    assert found.old.tolist() == sorted(found.old.tolist())
    return list(zip(found.old.tolist(), wanted.keys.take(pa.array(found.key)).to_pylist(), strict=True))


@pytest.mark.parametrize("pruning", EVERY)
def test_keys_are_found_at_their_rows_in_every_row_group(tmp_path: Path, pruning: Pruning) -> None:
    base = base_of(tmp_path, "b", "d", "f", "h", "j")
    assert pq.ParquetFile(base.path).num_row_groups == 3
    assert pairs(base, keys("a", "j", "c", "d", "z"), pruning) == [(1, "d"), (4, "j")]


@pytest.mark.parametrize("pruning", EVERY)
def test_a_key_that_is_there_several_times_is_found_each_time(tmp_path: Path, pruning: Pruning) -> None:
    base = base_of(tmp_path, "k", "l", "k", "k", "m")
    assert pairs(base, keys("k", "m"), pruning) == [(0, "k"), (2, "k"), (3, "k"), (4, "m")]


@pytest.mark.parametrize(("pruning", "opened"), [(NOTHING, True), (RANGES, False), (BLOOMS, False), (BOTH, False)])
def test_a_file_whose_range_or_filter_rules_all_keys_out_is_not_read(
    tmp_path: Path, groups_read: list[str], pruning: Pruning, opened: bool
) -> None:
    base = base_of(tmp_path, "m1", "m2", "m3")
    found = look_up(STORAGE, [base], keys("a", "z"), pruning)[0]
    assert (len(found.old), found.opened, bool(groups_read)) == (0, opened, opened)
    assert found.candidates == (2 if opened else 0)


def test_a_key_inside_the_range_but_not_in_the_filter_leaves_the_file_unread(tmp_path: Path, groups_read: list[str]) -> None:
    base = base_of(tmp_path, "m1", "m3")
    assert look_up(STORAGE, [base], keys("m2"), RANGES)[0].opened
    groups_read.clear()
    assert not look_up(STORAGE, [base], keys("m2"), BOTH)[0].opened
    assert groups_read == []


def test_only_keys_inside_the_range_are_candidates(tmp_path: Path) -> None:
    base = base_of(tmp_path, "m1", "m5")
    assert look_up(STORAGE, [base], keys("a", "m1", "m3", "m5", "z"), RANGES)[0].candidates == 3


def test_keys_beyond_the_sample_are_tried_in_the_filter_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "_SAMPLE", 3)
    base = base_of(tmp_path, "m1", "m5", "m9")
    found = look_up(STORAGE, [base], keys("m2", "m3", "m4", "a", "m9", "m6"), BOTH)[0]
    assert (found.candidates, found.key.tolist()) == (1, [4])


@pytest.mark.parametrize("pruning", EVERY)
def test_a_file_without_footer_entries_is_always_a_candidate(tmp_path: Path, pruning: Pruning) -> None:
    path = str(tmp_path / "plain.parquet")
    pq.write_table(pa.table({"_hoodie_record_key": ["a", "b"], "v": [1, 2]}), path)
    assert pairs(BaseFile(path, "f", "001", 1), keys("b"), pruning) == [(1, "b")]


@pytest.mark.parametrize("pruning", EVERY)
def test_an_empty_file_holds_nothing(tmp_path: Path, pruning: Pruning) -> None:
    path = str(tmp_path / "empty.parquet")
    pq.write_table(pa.table({"_hoodie_record_key": pa.array([], pa.string())}), path)
    base = BaseFile(path, "f", "001", 1)
    assert pairs(base, keys("b"), pruning) == []
    assert not holds_any_key(STORAGE, base, keys("b"), pruning)


@pytest.mark.parametrize("pruning", EVERY)
def test_no_keys_find_nothing(tmp_path: Path, pruning: Pruning) -> None:
    assert pairs(base_of(tmp_path, "a"), keys(), pruning) == []


TEXTS = st.sampled_from(["a", "b", "aa", "ab", "b ", "é", "中", "\ue000x", "\uffee", "😀", "😀a", "z"])


@settings(deadline=None, max_examples=40)
@given(stored=st.lists(TEXTS, min_size=1, max_size=8), wanted=st.sets(TEXTS))
def test_every_way_of_pruning_gives_the_same_answer(
    tmp_path_factory: pytest.TempPathFactory, stored: list[str], wanted: set[str]
) -> None:
    base = base_of(tmp_path_factory.mktemp("t"), *stored)
    expected = [(at, text) for at, text in enumerate(stored) if text in wanted]
    for pruning in EVERY:
        assert pairs(base, keys(*sorted(wanted)), pruning) == expected
        assert holds_any_key(STORAGE, base, keys(*sorted(wanted)), pruning) == bool(expected)


def test_a_range_in_javas_order_that_looks_empty_to_us_rules_nothing_out() -> None:
    # Java compares UTF-16 units: an emoji (a surrogate pair) is less than U+E000 there and greater in UTF-8.
    assert keys("😀", "\ue000", "a").between("😀", "\ue000") is None


def test_ranges_are_looked_up_in_keys_that_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = keys("d", "a", "c", "b")
    found = wanted.between("b", "c")
    assert found is not None
    assert sorted(found.tolist()) == [2, 3]
    monkeypatch.setattr(key_lookup.pc, "sort_indices", None)
    assert wanted.between("a", "z") is None
    assert wanted.between("x", "z").tolist() == []  # type: ignore[union-attr]


def test_checking_whether_a_file_holds_any_key_stops_at_the_first(tmp_path: Path, groups_read: list[str]) -> None:
    base = base_of(tmp_path, "a", "b", "c", "d", "e")
    assert holds_any_key(STORAGE, base, keys("c", "e"), NOTHING)
    assert len(groups_read) == 2


def test_a_damaged_or_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    base = base_of(tmp_path, "a")
    Path(base.path).write_bytes(b"garbage")
    with pytest.raises(CorruptFile, match=base.file_id):
        look_up(STORAGE, [base], keys("a"), NOTHING)[0]
    Path(base.path).unlink()
    with pytest.raises(CorruptFile, match="missing"):
        look_up(STORAGE, [base], keys("a"), BOTH)[0]


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("pruning", EVERY)
def test_several_files_have_each_their_own_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pruning: Pruning, at_once: int
) -> None:
    monkeypatch.setattr(key_lookup, "_ROWS_TOGETHER", at_once)
    bases = [base_of(tmp_path / str(i), *texts) for i, texts in enumerate(["bdf", "xyz", "ace", "bb"])]
    found = look_up(STORAGE, bases, keys("z", "b", "a", "q"), pruning)
    assert [(one.old.tolist(), one.key.tolist()) for one in found] == [([0], [1]), ([2], [0]), ([0], [2]), ([0, 1], [1, 1])]


def test_a_range_that_holds_most_of_many_keys_is_not_worth_sorting_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "_SAMPLE", 4)
    wanted = keys(*"abcdefgh")
    assert wanted.between("b", "h") is None
    assert wanted._order is None
    assert wanted.between("g", "h") is not None

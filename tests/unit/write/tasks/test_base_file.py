"""The next version of a base file: its rows, their meta columns, the counts of the write stat, and the footer."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import CorruptFile, SchemaError, StorageError
from penstock.filegroup import base_write as filegroup_write
from penstock.filegroup.key_changes import KeyChange, find_key_changes, read_changed_keys
from penstock.filegroup.key_footer import BloomSettings
from penstock.filegroup.model import BaseFile
from penstock.filegroup.names import mark_token
from penstock.filegroup.task_output import TaskOutput
from penstock.formats.bloom import read_bloom
from penstock.formats.parquet import read_footer
from penstock.merge.merger import Merger
from penstock.merge.overwrite import AlwaysDelete, EventTimeOrdering, OverwriteWithLatest
from penstock.merge.row_choice import Fate
from penstock.storage import LocalStorage
from penstock.timeline.commit_file import WriteStat
from penstock.write.tasks import base_file as merge_module
from penstock.write.tasks.base_file import FileMerge, merge_base_file
from penstock.write.tasks.located_rows import Hits
from penstock.write.tasks.task_rows import load_task_rows
from tests.unit.write.engine import (
    DELETABLE,
    TRIPS,
    base_of,
    read_base,
    settings_at,
    stage_pieces,
    table_of,
    task_rows_settings,
    trips,
    write_base,
)

OLD = (("a", "c", 10, "a old"), ("b", "c", 10, "b old"), ("c", "c", 10, "c old"), ("d", "c", 10, "d old"))
SEQNO, TIME, KEY, NAME = "_hoodie_commit_seqno", "_hoodie_commit_time", "_hoodie_record_key", "_hoodie_file_name"


class Case:
    """An old base file, and merges into it."""

    def __init__(self, folder: Path, old: pa.Table, schema: pa.Schema | None = None, **changes: Any) -> None:
        self.base = write_base(settings_at(folder, old.schema, "001", **changes), old, "c", task=7)
        self.settings = settings_at(folder, schema or old.schema, "002", **changes)

    def merge(
        self,
        new: pa.Table,
        merger: Merger | None = None,
        inserts: Any = 1_000,
        hits: Hits | None = None,
        ordering: str | None = None,
    ) -> WriteStat:
        staging, pieces = stage_pieces(self.settings, new)
        incoming = load_task_rows(task_rows_settings(staging, ordering), pieces)
        merge = FileMerge("c", self.base, merger or OverwriteWithLatest(), hits)
        self.merged = merge_base_file(TaskOutput(self.settings, 3, "3-0-0"), merge, incoming, inserts)
        self.stat = self.merged.stat
        self.new = base_of(self.settings, self.stat)
        return self.stat

    def rows(self) -> list[dict[str, Any]]:
        return read_base(self.new).to_pylist()

    def values(self, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[c] for c in columns) for row in self.rows()]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path, trips(*OLD))


@pytest.fixture
def deletable(tmp_path: Path) -> Case:
    return Case(tmp_path, trips(*OLD), DELETABLE)


def counts(stat: WriteStat) -> tuple[int, int, int, int]:
    """(numWrites, numUpdateWrites, numDeletes, numInserts)"""
    return stat.num_writes, stat.num_update_writes, stat.num_deletes, stat.num_inserts


# --- rows, meta columns, counts


def test_rows_with_known_keys_are_updated_in_place_and_rows_with_new_keys_added_at_the_end(case: Case) -> None:
    stat = case.merge(trips(("x", "c", 1, "x new"), ("b", "c", 1, "b new")))
    assert case.values("id", "v") == [("a", "a old"), ("b", "b new"), ("c", "c old"), ("d", "d old"), ("x", "x new")]
    assert counts(stat) == (5, 1, 0, 1)
    assert (stat.prev_commit, stat.file_id, stat.partition_path) == ("001", case.base.file_id, "c")
    assert stat.total_write_bytes == stat.file_size_in_bytes == Path(case.new.path).stat().st_size
    assert stat.total_write_errors == 0


def test_untouched_rows_keep_their_commit_time_and_seqno_and_updated_ones_get_their_position(case: Case) -> None:
    case.merge(trips(("x", "c", 1, "x"), ("y", "c", 1, "y"), ("c", "c", 1, "c new")))
    assert case.values("id", TIME, SEQNO) == [
        ("a", "001", "001_7_0"),
        ("b", "001", "001_7_1"),
        ("c", "002", "002_3_2"),
        ("d", "001", "001_7_3"),
        ("x", "002", "002_3_4"),
        ("y", "002", "002_3_5"),
    ]
    name = Path(case.new.path).name
    assert name.startswith(f"{case.base.file_id}_{mark_token('3-0-0', '002')}_002")
    assert {row[NAME] for row in case.rows()} == {name}
    assert {row["_hoodie_partition_path"] for row in case.rows()} == {"c"}


def test_the_position_of_an_updated_row_counts_only_rows_that_are_written(deletable: Case) -> None:
    new = table_of(DELETABLE, ("a", "c", 1, None, True), ("d", "c", 1, "d new", None), ("x", "c", 1, "x", False))
    stat = deletable.merge(new)
    assert deletable.values("id", SEQNO) == [("b", "001_7_1"), ("c", "001_7_2"), ("d", "002_3_2"), ("x", "002_3_3")]
    assert counts(stat) == (4, 1, 1, 1)


def test_a_delete_of_an_unknown_key_counts_as_delete_and_as_insert(deletable: Case) -> None:
    stat = deletable.merge(table_of(DELETABLE, ("u", "c", 1, "u", True), ("a", "c", 1, "a new", False)))
    assert counts(stat) == (4, 1, 1, 1)
    assert "u" not in [i for (i,) in deletable.values("id")]


def test_a_row_that_the_merger_keeps_is_not_counted_and_keeps_its_meta_columns(case: Case) -> None:
    new = trips(("a", "c", 5, "late"), ("b", "c", 10, "equal"), ("c", "c", 11, "newer"))
    stat = case.merge(new, EventTimeOrdering("ts"))
    assert counts(stat) == (4, 2, 0, 0)
    assert case.values("id", "v", TIME) == [
        ("a", "a old", "001"),
        ("b", "equal", "002"),
        ("c", "newer", "002"),
        ("d", "d old", "001"),
    ]


def test_a_key_that_the_file_holds_several_times_is_updated_each_time(tmp_path: Path) -> None:
    case = Case(tmp_path, trips(("k", "c", 1, "1"), ("l", "c", 1, "l"), ("k", "c", 2, "2"), ("k", "c", 9, "9")))
    stat = case.merge(trips(("k", "c", 5, "new")), EventTimeOrdering("ts"))
    assert case.values("id", "v", SEQNO) == [
        ("k", "new", "002_3_0"),
        ("l", "l", "001_7_1"),
        ("k", "new", "002_3_2"),
        ("k", "9", "001_7_3"),
    ]
    assert counts(stat) == (4, 2, 0, 0)


def test_a_delete_removes_all_rows_of_a_key_that_the_file_holds_several_times(tmp_path: Path) -> None:
    case = Case(tmp_path, trips(("k", "c", 1, "1"), ("l", "c", 1, "l"), ("k", "c", 2, "2")))
    assert counts(case.merge(trips(("k", "c", 5, "")), AlwaysDelete(), 0)) == (1, 0, 2, 0)
    assert case.values("id") == [("l",)]


def test_a_file_that_loses_all_rows_is_empty_and_can_be_merged_into(case: Case) -> None:
    stat = case.merge(trips(*OLD), AlwaysDelete(), 0)
    assert counts(stat) == (0, 0, 4, 0)
    empty = pq.ParquetFile(case.new.path)
    assert empty.metadata.num_rows == 0
    assert empty.schema_arrow.names[5:] == TRIPS.names
    assert "hoodie_min_record_key" not in read_footer(empty)
    again = Case.__new__(Case)
    again.base, again.settings = case.new, settings_at(case.settings.base_path, TRIPS, "003")
    assert counts(again.merge(trips(("z", "c", 1, "z")))) == (1, 0, 0, 1)


def test_only_as_many_new_rows_are_added_as_fit(case: Case) -> None:
    new = trips(("x", "c", 1, "x"), ("a", "c", 1, "a new"), ("y", "c", 1, "y"), ("z", "c", 1, "z"))
    assert counts(case.merge(new, inserts=2)) == (6, 1, 0, 2)
    assert [i for (i,) in case.values("id")] == ["a", "b", "c", "d", "x", "y"]
    assert case.merged.matched.tolist() == [1]


def test_located_rows_are_merged_by_their_fates_and_new_rows_added_by_number(case: Case) -> None:
    new = trips(("b", "c", 1, "b new"), ("x", "c", 1, "x"), ("d", "c", 1, "d gone"), ("c", "c", 1, "late"))
    hits = Hits(np.array([1, 2, 3]), np.array([0, 3, 2]), np.array([Fate.MERGE, Fate.TOUCH, Fate.MOVE]))
    stat = case.merge(new, hits=hits, inserts=np.array([1]))
    assert case.values("id", "v", TIME, SEQNO) == [
        ("a", "a old", "001", "001_7_0"),
        ("b", "b new", "002", "002_3_1"),
        ("c", "c old", "002", "002_3_2"),  # stays, and counts as written now
        ("x", "x", "002", "002_3_3"),
    ]
    assert counts(stat) == (4, 2, 1, 1)


def test_hits_without_positions_are_found_by_key_and_inserted_if_the_key_is_not_there(case: Case) -> None:
    news = trips(
        ("b", "c", 20, "b new"),
        ("x", "c", 20, "x new"),
        ("c", "z", 20, "c moved"),
        ("y", "z", 20, "y moved"),
        ("n", "c", 20, "n"),
    )
    hits = Hits(np.full(4, -1), np.arange(4), np.array([Fate.MERGE, Fate.MERGE, Fate.MOVE, Fate.MOVE]))
    stat = case.merge(news, inserts=np.array([4]), hits=hits)
    assert case.values(KEY) == [("a",), ("b",), ("d",), ("x",), ("n",)]
    assert (stat.num_update_writes, stat.num_deletes, stat.num_inserts) == (1, 1, 2)


def test_a_task_lists_the_keys_that_it_adds_and_removes_if_the_index_needs_them(deletable: Case, tmp_path: Path) -> None:
    storage, folder = LocalStorage(), str(tmp_path / "notes")
    deletable.settings = replace(deletable.settings, key_changes_folder=folder)
    new = table_of(DELETABLE, ("b", "c", 20, "b", True), ("n", "c", 20, "n", False), ("m", "c", 20, "m", True))
    staging, pieces = stage_pieces(deletable.settings, new)
    output = TaskOutput(deletable.settings, 3, "3-0-0")
    incoming = load_task_rows(task_rows_settings(staging, None), pieces)
    stat = merge_base_file(output, FileMerge("c", deletable.base, OverwriteWithLatest()), incoming, 1_000).stat
    output.finish()
    name = (stat.path or "").rpartition("/")[2]
    found = {note: find_key_changes(storage, folder, note, [name, "of a lost attempt"]) for note in KeyChange}
    keys = {
        note.value: [k for path in paths.values() for part in read_changed_keys(storage, path) for k in part.to_pylist()]
        for note, paths in found.items()
    }
    assert keys == {"added": ["n"], "removed": ["b", "m"]}
    assert find_key_changes(storage, str(tmp_path / "nothing"), KeyChange.ADDED, [name]) == {}


def test_sequence_numbers_of_a_task_continue_in_its_next_file(case: Case) -> None:
    staging, pieces = stage_pieces(case.settings, trips(("x", "c", 1, "x")))
    output = TaskOutput(case.settings, 3, "3-0-0")
    merge_base_file(
        output, FileMerge("c", case.base, OverwriteWithLatest()), load_task_rows(task_rows_settings(staging), pieces), 1
    )
    assert output.reserve_row_numbers(1) == 5


# --- memory


def test_at_most_two_row_groups_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filegroup_write, "ROW_GROUP_ROWS", 50)
    case = Case(tmp_path, trips(*((f"k{n:04}", "c", 1, "x") for n in range(400))))
    assert pq.ParquetFile(case.base.path).num_row_groups == 8
    alive: list[Any] = []
    most = 0
    read = merge_module.read_row_groups

    def counting(*arguments: Any) -> Iterator[pa.Table]:
        nonlocal most
        for group in read(*arguments):
            alive.append(weakref.ref(group))
            most = max(most, sum(ref() is not None for ref in alive))
            yield group
            del group

    monkeypatch.setattr(merge_module, "read_row_groups", counting)
    case.merge(trips(*((f"k{n:04}", "c", 2, "y") for n in range(0, 400, 7))))
    assert (most, len(alive)) == (2, 8)  # one is worked on, the next one is being read
    assert sum(v == "y" for (v,) in case.values("v")) == 58
    assert pq.ParquetFile(case.new.path).num_row_groups == 8


def test_only_the_row_group_that_is_worked_on_is_held_while_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filegroup_write, "ROW_GROUP_ROWS", 50)
    case = Case(tmp_path, trips(*((f"k{n:04}", "c", 1, "x") for n in range(200))))
    alive: list[Any] = []
    held: list[int] = []
    read = pq.ParquetFile.read_row_group

    def counting(self: pq.ParquetFile, *arguments: Any, **options: Any) -> pa.Table:
        held.append(sum(ref() is not None for ref in alive))
        table = read(self, *arguments, **options)
        alive.append(weakref.ref(table))
        return table

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counting)
    case.merge(trips(("k0000", "c", 2, "y")))
    assert max(held) <= 1
    assert len(held) == 4


# --- schemas


def test_columns_that_the_old_file_lacks_are_null_in_its_rows(tmp_path: Path) -> None:
    wide = TRIPS.append(pa.field("more", pa.list_(pa.field("element", pa.int32()))))
    case = Case(tmp_path, trips(*OLD[:2]), wide)
    case.merge(table_of(wide, ("a", "c", 1, "a new", [1, None]), ("x", "c", 1, "x", None)))
    assert case.values("id", "more") == [("a", [1, None]), ("b", None), ("x", None)]


def test_columns_that_only_the_old_file_has_are_gone(tmp_path: Path) -> None:
    narrow = pa.schema([f for f in TRIPS if f.name != "city"])
    case = Case(tmp_path, trips(*OLD[:2]), narrow)
    case.merge(table_of(narrow, ("a", 1, "a new")))
    assert pq.ParquetFile(case.new.path).schema_arrow.names[5:] == ["id", "ts", "v"]
    assert case.values("id", "v") == [("a", "a new"), ("b", "b old")]


def test_columns_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    turned = pa.schema([TRIPS.field(n) for n in ("v", "ts", "id", "city")])
    case = Case(tmp_path, trips(*OLD[:2]), turned)
    case.merge(table_of(turned, ("a new", 1, "a", "c")))
    assert case.values("id", "v", "city") == [("a", "a new", "c"), ("b", "b old", "c")]


def test_old_values_are_promoted_to_the_types_the_table_has_now(tmp_path: Path) -> None:
    before = pa.schema([("id", pa.string()), ("n", pa.int32()), ("f", pa.float32()), ("s", pa.struct([("x", pa.int32())]))])
    after = pa.schema(
        [("id", pa.string()), ("n", pa.int64()), ("f", pa.float64()), ("s", pa.struct([("x", pa.float64()), ("y", pa.string())]))]
    )
    case = Case(tmp_path, table_of(before, ("a", 1, 0.5, {"x": 1}), ("b", None, None, None)), after)
    case.merge(table_of(after, ("c", 1 << 40, 2.5, {"x": 2.5, "y": "y"})))
    assert case.values("id", "n", "f", "s") == [
        ("a", 1, 0.5, {"x": 1.0, "y": None}),
        ("b", None, None, None),
        ("c", 1 << 40, 2.5, {"x": 2.5, "y": "y"}),
    ]


def test_an_ordering_column_that_was_promoted_still_decides(tmp_path: Path) -> None:
    before = pa.schema([("id", pa.string()), ("ts", pa.int32())])
    after = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    case = Case(tmp_path, table_of(before, ("a", 10), ("b", 10)), after)
    case.merge(table_of(after, ("a", 9), ("b", 1 << 40)), EventTimeOrdering("ts"))
    assert case.values("id", "ts") == [("a", 10), ("b", 1 << 40)]


def test_an_ordering_column_that_the_old_file_lacks_lets_the_incoming_row_win(tmp_path: Path) -> None:
    before = pa.schema([("id", pa.string())])
    after = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    case = Case(tmp_path, table_of(before, ("a",), ("b",)), after)
    assert counts(case.merge(table_of(after, ("a", 1)), EventTimeOrdering("ts"))) == (2, 1, 0, 0)


def test_a_nested_ordering_field_decides_against_storage(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("meta", pa.struct([("at", pa.int64())])), ("v", pa.string())])
    case = Case(tmp_path, table_of(schema, ("a", {"at": 5}, "old"), ("b", {"at": 5}, "old"), ("c", None, "old")))
    new = table_of(schema, ("a", {"at": 4}, "new"), ("b", {"at": 6}, "new"), ("c", {"at": 1}, "new"))
    case.merge(new, EventTimeOrdering("meta.at"))
    assert case.values("id", "v") == [("a", "old"), ("b", "new"), ("c", "new")]


EVERY_TYPE = pa.schema(
    [
        ("id", pa.string()),
        ("flag", pa.bool_()),
        ("money", pa.decimal128(20, 4)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.field("element", pa.struct([("x", pa.int32()), ("t", pa.string())])))),
        ("map", pa.map_(pa.string(), pa.list_(pa.field("element", pa.int64())))),
        ("deep", pa.struct([("a", pa.struct([("b", pa.list_(pa.field("element", pa.string())))]))])),
    ]
)
ZERO = datetime(1970, 1, 1)
FULL = (
    "a",
    True,
    Decimal("12.3400"),
    datetime(2024, 5, 6, 7, 8, 9, 10, timezone.utc),
    ZERO,
    ZERO.date(),
    b"\x00\xff",
    [{"x": 1, "t": None}, None, {"x": None, "t": "t"}],
    [("k", [1, None]), ("l", None)],
    {"a": {"b": ["x", None, ""]}},
)
NULLS = ("b", *([None] * 9))
HALF = ("c", False, None, None, ZERO, None, b"", [], [], {"a": {"b": None}})
INSIDE = ("d", None, Decimal("-0.0001"), None, None, None, None, [None], [("k", [])], {"a": None})


def test_values_of_every_type_and_nulls_at_every_depth_survive_a_merge(tmp_path: Path) -> None:
    case = Case(tmp_path, table_of(EVERY_TYPE, FULL, NULLS, HALF, INSIDE))
    moved = table_of(EVERY_TYPE, ("a", *NULLS[1:]), ("b", *INSIDE[1:]), ("c", *FULL[1:]), ("x", *HALF[1:]))
    case.merge(moved)
    found = read_base(case.new).select(EVERY_TYPE.names)
    expected = table_of(EVERY_TYPE, ("a", *NULLS[1:]), ("b", *INSIDE[1:]), ("c", *FULL[1:]), INSIDE, ("x", *HALF[1:]))
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.field("at").type == pa.timestamp("us", "UTC")


def test_columns_that_cannot_be_null_in_the_settings_are_no_obstacle(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])
    case = Case(tmp_path, pa.table({"id": ["a", "b"], "v": [1, 2]}, schema=schema))
    case.merge(pa.table({"id": ["b", "c"], "v": [3, 4]}, schema=schema))
    assert case.values("id", "v") == [("a", 1), ("b", 3), ("c", 4)]


def test_files_of_other_writers_with_older_list_and_map_layouts_are_merged_into(tmp_path: Path) -> None:
    # Lists of two levels (`array`) and maps whose entries are called `key_value`, as parquet-avro writes them.
    case = Case(tmp_path, table_of(EVERY_TYPE, FULL))
    table = read_base(case.base)
    path = Path(case.base.path)
    old = pa.schema(
        [f.with_type(pa.list_(pa.field("array", f.type.value_type))) if f.name == "list" else f for f in table.schema]
    )
    pq.write_table(table.cast(old), path, use_compliant_nested_type=False)
    case.merge(table_of(EVERY_TYPE, HALF))
    assert case.values("id", "list", "map") == [("a", FULL[7], FULL[8]), ("c", [], [])]


# --- footers


def crossing_keys(base: BaseFile) -> list[str]:
    found: list[str] = read_base(base)[KEY].to_pylist()
    return found


def footer(base: BaseFile) -> dict[str, str]:
    return dict(read_footer(pq.ParquetFile(base.path)))


def test_the_footer_of_the_new_version_knows_all_its_keys(case: Case) -> None:
    case.merge(trips(("A", "c", 1, "first"), ("x", "c", 1, "last"), ("b", "c", 1, "b new")))
    entries = footer(case.new)
    assert (entries["hoodie_min_record_key"], entries["hoodie_max_record_key"]) == ("A", "x")
    bloom = read_bloom(entries["org.apache.hudi.bloomfilter"], entries["hoodie_bloom_filter_type_code"])
    assert bloom.might_contain(pa.array(crossing_keys(case.new))).all()
    assert not bloom.might_contain(pa.array(["nobody", "else"])).any()


def test_the_range_shrinks_when_the_outermost_keys_are_deleted(case: Case) -> None:
    case.merge(trips(("a", "c", 1, ""), ("d", "c", 1, "")), AlwaysDelete(), 0)
    entries = footer(case.new)
    assert (entries["hoodie_min_record_key"], entries["hoodie_max_record_key"]) == ("b", "c")


@pytest.mark.parametrize("kind", ["DYNAMIC_V0", "SIMPLE"])
def test_a_filter_made_for_far_fewer_keys_is_rebuilt(tmp_path: Path, kind: str) -> None:
    bloom = BloomSettings(kind, entries=60_000, error_rate=1e-6, max_entries=100_000)
    case = Case(tmp_path, trips(("a0", "c", 1, "x")), bloom=bloom)
    for number in range(3):
        many = trips(*((f"{number}-{n:05}", "c", 1, "x") for n in range(1_500)))
        case.merge(many, inserts=5_000)
        case.base, case.settings = case.new, settings_at(tmp_path, TRIPS, f"10{number}", bloom=bloom)
    entries = footer(case.base)
    found = read_bloom(entries["org.apache.hudi.bloomfilter"], entries.get("hoodie_bloom_filter_type_code"))
    assert found.might_contain(pa.array(crossing_keys(case.base))).all()
    strangers = pa.array([f"stranger-{n}" for n in range(2_000)])
    assert found.might_contain(strangers).sum() <= 1


def test_a_file_without_a_filter_gets_one(case: Case) -> None:
    table = read_base(case.base)
    pq.write_table(table, case.base.path)
    case.merge(trips(("x", "c", 1, "x")))
    entries = footer(case.new)
    bloom = read_bloom(entries["org.apache.hudi.bloomfilter"], entries["hoodie_bloom_filter_type_code"])
    assert bloom.might_contain(pa.array(["a", "b", "c", "d", "x"])).all()
    assert (entries["hoodie_min_record_key"], entries["hoodie_max_record_key"]) == ("a", "x")


def test_the_range_is_in_javas_order(tmp_path: Path) -> None:
    # In UTF-16 the emoji (D83D DE00) comes before U+E000 and U+FF21, in UTF-8 after them.
    case = Case(tmp_path, trips(("\ue000", "c", 1, "x"), ("中", "c", 1, "x")))
    case.merge(trips(("😀", "c", 1, "x"), ("\uff21", "c", 1, "y")))
    entries = footer(case.new)
    assert (entries["hoodie_min_record_key"], entries["hoodie_max_record_key"]) == ("中", "\uff21")
    case.base, case.settings = case.new, settings_at(tmp_path, TRIPS, "003")
    case.merge(trips(("\uff21", "c", 1, ""), ("中", "c", 1, "")), AlwaysDelete(), 0)
    entries = footer(case.new)
    assert (entries["hoodie_min_record_key"], entries["hoodie_max_record_key"]) == ("😀", "\ue000")


# --- failures


@pytest.mark.parametrize(("first", "last"), [(4, 200), (-600, -100), (0, None)])
def test_a_damaged_file_is_an_error_that_names_it_wherever_the_damage_is(case: Case, first: int, last: int | None) -> None:
    path = Path(case.base.path)
    data = bytearray(path.read_bytes())
    data[first:last] = bytes(len(data[first:last]))
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptFile, match=case.base.file_id):
        case.merge(trips(("a", "c", 1, "x")))


def test_values_that_do_not_fit_the_table_any_more_are_refused_by_column(tmp_path: Path) -> None:
    case = Case(tmp_path, table_of(pa.schema([("id", pa.string()), ("n", pa.string())]), ("a", "text")))
    case.settings = settings_at(tmp_path, pa.schema([("id", pa.string()), ("n", pa.int64())]), "003")
    with pytest.raises(SchemaError, match="column 'n' is stored as string"):
        case.merge(table_of(case.settings.schema, ("b", 1)))


def test_a_full_disk_is_a_storage_error(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    create = LocalStorage.create

    def full(self: LocalStorage, path: str) -> pa.NativeFile:
        return pa.OSFile("/dev/full", "wb") if path.endswith(".parquet") else create(self, path)

    monkeypatch.setattr(LocalStorage, "create", full)
    with pytest.raises(StorageError, match="No space left"):
        case.merge(trips(("a", "c", 1, "x")))


def test_settings_without_a_filter_write_none(tmp_path: Path) -> None:
    case = Case(tmp_path, trips(*OLD), bloom=None)
    case.merge(trips(("a", "c", 1, "x")))
    assert "org.apache.hudi.bloomfilter" not in footer(case.new)
    assert footer(case.new)["hoodie_min_record_key"] == "a"

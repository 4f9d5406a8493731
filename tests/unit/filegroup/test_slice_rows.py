"""A slice's rows: what the log says about each key, and what becomes of it where it meets the base row."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import CorruptFile
from penstock.filegroup.log.committed_times import CommittedTimes
from penstock.filegroup.model import BaseFile, FileSlice, LogFile
from penstock.filegroup.names import log_file_name
from penstock.filegroup.slice_rows import MergeCounts, read_merged_rows
from penstock.formats.log import encode_avro_block, encode_rollback_block
from penstock.merge.aggregate import Aggregate
from penstock.merge.merger import Merger
from penstock.merge.overwrite import AlwaysDelete, CommitTimeOrdering, EventTimeAvro, EventTimeOrdering, OverwriteWithLatest
from penstock.merge.partial import PartialUpdate
from penstock.schema import META_COLUMNS, arrow_to_avro, with_meta_columns
from penstock.storage import LocalStorage
from tests.unit.filegroup.slices import AVRO, COLUMNS, Slice, data, deletes, rows, rules_of

LATEST = OverwriteWithLatest()
ORDERED = EventTimeOrdering("ts")


def events(*given: Any) -> list[bytes]:
    """Blocks about key `a`, one commit each: (v, ts), (v, ts, True) for a row that is a delete, or the ordering of a delete."""
    blocks = []
    for number, built in enumerate(given, start=2):
        if isinstance(built, tuple):
            blocks.append(data(f"{number:02}", ("a", *built)))
        else:
            blocks.append(deletes(f"{number:02}", ["a"], None if built is None else built))
    return blocks


def long(value: int) -> pa.Array:
    return pa.array([value], pa.int64())


# What is left of key `a` without a base row: the truth table of merging log records with one another.
IN_THE_LOG = [
    ("one row", [(1, 5)], 1),
    ("the greater ordering value wins", [(1, 5), (2, 6)], 2),
    ("the older row wins by its ordering value", [(1, 6), (2, 5)], 1),
    ("the later one wins among equals", [(1, 5), (2, 5)], 2),
    ("a delete without ordering value always deletes", [(1, 5), None], None),
    ("a delete with a smaller value is too late", [(1, 5), long(4)], 1),
    ("a delete with the same value deletes", [(1, 5), long(5)], None),
    ("a delete with a greater value deletes", [(1, 5), long(6)], None),
    ("a delete whose value is of another type deletes", [(1, 5), pa.array([4], pa.int32())], None),
    ("a delete whose value is a text deletes", [(1, 5), pa.array(["4"])], None),
    ("a delete with the long 0 is too late", [(1, 5), long(0)], 1),
    ("a row after a delete wins whatever its value", [(1, 9), None, (2, 1)], 2),
    ("a row after a delete with a greater value wins too", [long(9), (2, 1)], 2),
    ("a delete that came too late is forgotten", [(1, 5), long(4), (2, 4)], 1),
    ("a delete of an unknown key leaves nothing", [None], None),
    ("a row marked as deleted is compared like any row, and wins", [(1, 5), (0, 6, True)], None),
    ("a row marked as deleted is compared like any row, and loses", [(1, 5), (0, 4, True)], 1),
    ("a row marked as deleted loses to a newer row", [(0, 6, True), (1, 7)], 1),
    ("a row marked as deleted wins over an older row that comes later", [(0, 6, True), (1, 5)], None),
]


@pytest.mark.parametrize("merger", [LATEST, ORDERED], ids=["latest", "ordered"])
@pytest.mark.parametrize(("given", "left"), [case[1:] for case in IN_THE_LOG], ids=[case[0] for case in IN_THE_LOG])
def test_records_of_a_log_are_merged_with_one_another(merger: Merger, given: list[Any], left: int | None) -> None:
    built = Slice().base().log(*events(*given))
    assert built.values(rules_of(merger)) == ({} if left is None else {"a": left})
    apart = Slice().base()
    for block in events(*given):
        apart.log(block)
    assert apart.values(rules_of(merger)) == built.values(rules_of(merger))


# What becomes of a base row (v 10, ts 5) that the folded log meets.
WITH_THE_BASE = [
    (LATEST, "a newer row replaces it", [(1, 6)], 1),
    (LATEST, "an older row replaces it too", [(1, 4)], 1),
    (LATEST, "of two log rows the greater one replaces it", [(1, 4), (2, 3)], 1),
    (LATEST, "a delete removes it", [None], None),
    (LATEST, "a delete with a smaller ordering value removes it", [long(1)], None),
    (LATEST, "a row marked as deleted removes it", [(0, 1, True)], None),
    (LATEST, "a row after a delete replaces it", [None, (1, 1)], 1),
    (ORDERED, "a newer row replaces it", [(1, 6)], 1),
    (ORDERED, "a row as new replaces it", [(1, 5)], 1),
    (ORDERED, "an older row does not", [(1, 4)], 10),
    (ORDERED, "a delete removes it", [None], None),
    (ORDERED, "a delete with a smaller ordering value removes it", [long(1)], None),
    (ORDERED, "an older row marked as deleted does not", [(0, 4, True)], 10),
    (ORDERED, "a newer row marked as deleted removes it", [(0, 6, True)], None),
    (ORDERED, "an older row after a delete does not replace it", [None, (1, 4)], 10),
    (EventTimeAvro("ts"), "an older row marked as deleted removes it", [(0, 4, True)], None),
    (CommitTimeOrdering(), "the last row replaces it", [(1, 9), (2, 1)], 2),
    (AlwaysDelete(), "everything removes it", [(1, 9)], None),
]


@pytest.mark.parametrize(
    ("merger", "given", "left"),
    [(case[0], *case[2:]) for case in WITH_THE_BASE],
    ids=[f"{type(case[0]).__name__}: {case[1]}" for case in WITH_THE_BASE],
)
def test_a_base_row_is_merged_with_the_log(merger: Merger, given: list[Any], left: int | None) -> None:
    built = Slice().base(("x", 0, 0), ("a", 10, 5), ("y", 0, 0)).log(*events(*given))
    expected = {"x": 0, "a": left, "y": 0}
    assert built.values(rules_of(merger)) == {k: v for k, v in expected.items() if v is not None}


# the slice as a whole


def test_base_rows_keep_their_place_and_new_rows_follow_them() -> None:
    built = Slice().base(("a", 1, 1), ("b", 2, 1), ("c", 3, 1), ("d", 4, 1), ("e", 5, 1))
    built.log(data("02", ("z", 26, 2), ("d", 40, 2), ("a", 10, 2)), deletes("02", ["b", "q"])).log(data("03", ("y", 25, 3)))
    counts = MergeCounts()
    assert list(built.values().items()) == [("a", 10), ("c", 3), ("d", 40), ("e", 5), ("z", 26), ("y", 25)]
    built.merged(counts=counts)
    assert (counts.updates, counts.deletes, counts.inserts, counts.base_rows) == (2, 1, 2, 5)
    assert (counts.scan.files, counts.scan.blocks, counts.log_records) == (2, 3, 4)
    assert counts.scan.size_bytes == sum(file.size_bytes for file in built.made.log_files)


def test_a_kept_base_row_is_no_update() -> None:
    counts = MergeCounts()
    built = Slice().base(("a", 1, 5)).log(data("02", ("a", 2, 4)))
    assert built.merged(rules_of(ORDERED), counts=counts)["v"].to_pylist() == [1]
    assert counts.updates == 0


def test_each_row_keeps_its_meta_columns() -> None:
    built = Slice().base(("a", 1, 1), ("b", 2, 1)).log(data("02", ("b", 3, 2), ("c", 4, 2)))
    found = built.merged()
    assert found.column_names == [*META_COLUMNS, *COLUMNS.names]
    assert found["_hoodie_commit_time"].to_pylist() == ["01", "02", "02"]


@pytest.mark.parametrize("parquet", [False, True])
def test_only_the_wanted_columns_are_read_in_their_order(parquet: bool) -> None:
    built = Slice().base(("a", 1, 5), ("b", 2, 5)).log(data("02", ("a", 3, 4), ("b", 4, 6), parquet=parquet))
    found = built.merged(rules_of(ORDERED), ["v", "_hoodie_commit_time"])
    assert found.column_names == ["v", "_hoodie_commit_time"]
    assert found.to_pylist() == [{"v": 1, "_hoodie_commit_time": "01"}, {"v": 4, "_hoodie_commit_time": "02"}]


def test_no_columns_at_all_still_count_the_rows() -> None:
    built = Slice().base(("a", 1, 5)).log(data("02", ("b", 3, 4)))
    assert sum(t.num_rows for t in [built.merged(columns=["id"])]) == 2


def test_a_slice_of_logs_alone_has_its_rows() -> None:
    assert Slice().log(data("01", ("a", 1, 1)), data("02", ("a", 2, 2), ("b", 3, 1))).values() == {"a": 2, "b": 3}


def test_a_slice_without_logs_is_its_base_file() -> None:
    assert Slice().base(("a", 1, 1), ("b", 2, 1), ("c", 3, 1)).values() == {"a": 1, "b": 2, "c": 3}


def test_a_slice_of_which_nothing_is_left_has_no_rows() -> None:
    assert Slice().base(("a", 1, 1)).log(deletes("02", ["a"])).values() == {}


def test_rolled_back_and_pending_blocks_leave_no_trace() -> None:
    built = Slice().base(("a", 1, 1), ("b", 2, 1))
    built.log(data("02", ("a", 5, 5), ("c", 6, 6))).log(deletes("03", ["b"])).log(
        encode_rollback_block(instant="04", target_instant="02")
    )
    assert built.values(rules_of(times=CommittedTimes(frozenset({"01", "02"}), frozenset({"03"}), "01"))) == {"a": 1, "b": 2}


def test_as_of_a_time_later_blocks_do_not_count() -> None:
    built = Slice().base(("a", 1, 1)).log(data("02", ("a", 2, 2))).log(data("03", ("a", 3, 3)), deletes("04", ["a"]))
    times = frozenset({"01", "02", "03", "04"})
    seen = [built.values(rules_of(times=CommittedTimes(times, as_of=f"{at:02}"))) for at in range(1, 5)]
    assert seen == [{"a": 1}, {"a": 2}, {"a": 3}, {}]


def test_without_merging_base_rows_and_folded_log_rows_are_both_returned() -> None:
    built = Slice().base(("a", 1, 9), ("b", 2, 9))
    built.log(data("02", ("a", 3, 1), ("c", 4, 1), ("d", 0, 1, True)), deletes("02", ["b"])).log(data("03", ("a", 5, 2)))
    found = built.merged(rules_of(ORDERED, skip_merge=True), ["id", "v"])
    assert found.to_pylist() == [{"id": i, "v": v} for i, v in [("a", 1), ("b", 2), ("c", 4), ("a", 5)]]


def test_without_an_ordering_column_the_last_record_wins() -> None:
    built = Slice().base(("a", 1, 9)).log(data("02", ("a", 2, 9)), data("03", ("a", 3, 1)), deletes("04", ["b"], long(3)))
    assert built.values(rules_of(ordering=None)) == {"a": 3}


def test_a_delete_with_the_int_zero_always_deletes_where_the_ordering_column_is_an_int() -> None:
    columns = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int32())])
    rules = rules_of(schema=with_meta_columns(arrow_to_avro(columns, "t")))
    for value, left in ((0, {}), (1, {"a": 1}), (5, {})):
        built = Slice().base().log(data("02", ("a", 1, 5), columns=columns), deletes("03", ["a"], pa.array([value], pa.int32())))
        assert built.values(rules) == left


def test_older_files_are_read_in_the_schema_of_the_table() -> None:
    old = pa.schema([("id", pa.string()), ("v", pa.int32())])
    built = Slice().base(("a", 1), ("b", 2), columns=old).log(data("02", ("b", 3), columns=old), data("03", ("c", 4, 7)))
    found = built.merged(columns=["v", "ts"])
    assert found.schema.field("v").type == pa.int64()
    assert found.to_pylist() == [{"v": 1, "ts": None}, {"v": 3, "ts": None}, {"v": 4, "ts": 7}]


def test_partial_rows_fill_the_base_row_and_one_another() -> None:
    built = Slice().base(("a", 1, 1), ("b", 2, 2)).log(data("02", ("a", None, 5)), data("03", ("a", 7, 3), ("b", None, 9)))
    found = built.merged(rules_of(PartialUpdate("ts")), ["id", "v", "ts"]).to_pylist()
    assert found == [{"id": "a", "v": 7, "ts": 5}, {"id": "b", "v": 2, "ts": 9}]


def test_aggregates_start_again_after_a_delete_in_the_log() -> None:
    merger = Aggregate((("v", "sum"),), "ts")
    built = Slice().base(("a", 100, 1), ("b", 100, 1))
    built.log(data("02", ("a", 1, 2), ("b", 1, 2)), deletes("03", ["b"]), data("04", ("a", 2, 3), ("b", 5, 3)))
    assert built.values(rules_of(merger)) == {"a": 103, "b": 5}
    assert built.merged(rules_of(merger), ["id"])["id"].to_pylist() == ["a", "b"]


def test_a_missing_base_file_is_named() -> None:
    built = Slice().base(("a", 1, 1)).log(data("02", ("a", 2, 2)))
    built.storage.delete(built.made.base_file.path)  # type: ignore[union-attr]
    with pytest.raises(CorruptFile, match=r"f-0_0-0-0_01\.parquet is missing"):
        built.values()


def test_a_log_whose_base_file_is_missing_is_an_error() -> None:
    with pytest.raises(
        CorruptFile, match=r"base file of /t/\.f-0_01\.log\.1_0-0-0 is missing: nothing in the log was written by 01"
    ):
        Slice().log(data("02", ("a", 2, 2))).values()
    assert Slice().log(data("02", ("a", 2, 2))).values(rules_of(times=CommittedTimes(frozenset()))) == {}


def test_a_group_whose_first_write_was_rolled_back_began_with_log_files() -> None:
    torn = data("01", ("x", 1, 1))[:-20]
    rollback = encode_rollback_block(instant="02", target_instant="01")
    assert Slice().log(torn).log(rollback).values() == {}
    assert Slice().log(torn).log(rollback).log(data("03", ("a", 2, 2))).values() == {"a": 2}


def test_without_meta_columns_rows_are_merged_by_the_key_column() -> None:
    def bare(table: pa.Table) -> pa.Table:
        """Rows as a table without filled meta columns keeps them."""
        return pa.table([pa.nulls(table.num_rows, pa.string())] * 5 + table.columns[5:], schema=table.schema)

    built = Slice()
    sink = io.BytesIO()
    pq.write_table(bare(rows("01", ("a", 1, 1), ("b", 1, 1), ("c", 1, 1))), sink)
    built.storage.write_new("/t/f-0_0-0-0_01.parquet", sink.getvalue())
    built.made = replace(built.made, base_file=BaseFile("/t/f-0_0-0-0_01.parquet", "f-0", "01", len(sink.getvalue())))
    built.log(encode_avro_block(bare(rows("02", ("a", 2, 2), ("n", 2, 2))), instant="02", schema=AVRO), deletes("02", ["b"]))
    assert built.values(rules_of(key="id")) == {"a": 2, "c": 1, "n": 2}


# memory


WIDE = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("text", pa.string())])
WIDE_AVRO = with_meta_columns(arrow_to_avro(WIDE, "t"))


@pytest.mark.parametrize("merger", [LATEST, ORDERED, PartialUpdate("ts"), Aggregate((("v", "sum"),), "ts")], ids=repr)
@pytest.mark.parametrize("memory_bytes", [1, 20_000, 200_000])
def test_a_log_larger_than_the_limit_of_memory_has_the_same_rows_and_leaves_no_file(
    tmp_path: Any, merger: Merger, memory_bytes: int
) -> None:
    chance = random.Random(7)
    built = Slice().base(*((f"k{n:04}", n, 5, "b") for n in range(0, 600, 2)), columns=WIDE, row_group=100)
    for number in range(2, 12):
        some = chance.sample(range(600), 150)
        blocks = [data(f"{number:02}", *((f"k{n:04}", n * number, chance.randrange(9), "x" * 50) for n in some), columns=WIDE)]
        blocks.append(deletes(f"{number:02}", [f"k{n:04}" for n in chance.sample(range(600), 20)], None))
        built.log(*blocks)
    rules = rules_of(merger, schema=WIDE_AVRO)
    tight = rules_of(merger, schema=WIDE_AVRO, memory_bytes=memory_bytes, spill_folder=str(tmp_path))
    whole, spilled = (built.merged(r).sort_by("id") for r in (rules, tight))
    assert spilled.equals(whole)
    assert whole.num_rows > 300
    assert list(tmp_path.iterdir()) == []


def test_a_log_of_many_versions_of_few_keys_is_folded_without_spilling() -> None:
    built = Slice().base()
    for number in range(2, 60):
        built.log(data(f"{number:02}", *((f"k{n}", number, number, "x" * 500) for n in range(20)), columns=WIDE))
    found = built.merged(rules_of(LATEST, schema=WIDE_AVRO, memory_bytes=100_000, spill_folder="/nowhere/at/all"))
    assert found.num_rows == 20
    assert set(found["v"].to_pylist()) == {59}


@pytest.mark.parametrize(("parquet", "blocks"), [(False, 1), (True, 1), (True, 60)], ids=["Avro", "Parquet", "many blocks"])
def test_memory_follows_the_limit_and_not_the_log(tmp_path: Any, parquet: bool, blocks: int) -> None:
    limit = 4 << 20
    size = 60_000 // blocks
    name = log_file_name("f-0", "01", 1, "0-0-0")
    with (tmp_path / name).open("wb") as file:
        for number in range(blocks):
            some = range(number * size, (number + 1) * size)
            rows = ((f"{n:012}", number, number, f"{n:07}" * 100) for n in some)
            file.write(data("01", *rows, columns=WIDE, parquet=parquet))
    log = LogFile(str(tmp_path / name), "f-0", "01", 1, "0-0-0", (tmp_path / name).stat().st_size)
    rules = rules_of(LATEST, schema=WIDE_AVRO, memory_bytes=limit, spill_folder=str(tmp_path))
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        slice_ = FileSlice("", "f-0", "01", None, (log,))
        found = sum(table.num_rows for table in read_merged_rows(LocalStorage(), slice_, rules, ["v", "text"]))
    finally:
        pa.set_memory_pool(before)
    assert found == 60_000
    assert pool.max_memory() < 4 * limit  # the log holds ten times the limit, the keys alone a quarter of it


def test_memory_follows_the_limit_where_keys_are_deleted_from_a_wide_table(tmp_path: Any) -> None:
    wide = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), *((f"c{n}", pa.int64()) for n in range(40))])
    limit = 1 << 20
    avro = with_meta_columns(arrow_to_avro(wide, "t"))
    built = Slice().base(columns=wide).log(deletes("02", [f"{n:06}" for n in range(30_000)]))
    rules = rules_of(LATEST, schema=avro, memory_bytes=limit, spill_folder=str(tmp_path))
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        assert list(read_merged_rows(built.storage, built.made, rules)) == []
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 3 * limit  # nulls for all columns of all keys would take more than ten times the limit

"""Which blocks of a slice's log files count, and what is read of them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptFile, PenstockError, Unsupported
from penstock.filegroup.log.scan import (
    CommittedTimes,
    LogColumns,
    LogScan,
    committed_times,
    read_records,
    scan_log_files,
    scan_slice,
    touched_positions,
)
from penstock.formats.log import BlockType, HeaderKey, encode_avro_block, encode_block, encode_rollback_block, scan_blocks
from penstock.merge.kernels.fold import LogRecords
from penstock.schema import META_COLUMNS, arrow_to_avro, avro_text, with_meta_columns
from penstock.schema.avro import parse_avro
from penstock.timeline.timeline import Timeline
from tests.unit.filegroup.slices import ALL_TIMES, AVRO, Slice, data, deletes, rows, rules_of

LOGS = Path(__file__).resolve().parents[3] / "data" / "logs"
KEY = "_hoodie_record_key"


def scan(one: Slice, times: CommittedTimes = ALL_TIMES) -> LogScan:
    return scan_log_files(one.storage, one.made.log_files, times)


def counting(one: Slice, times: CommittedTimes = ALL_TIMES) -> list[str]:
    return [block.instant for _, block in scan(one, times).blocks]


def read(one: Slice, columns: LogColumns | None = None, times: CommittedTimes = ALL_TIMES) -> list[LogRecords]:
    blocks = scan(one, times).blocks
    return list(read_records(one.storage, blocks, columns or LogColumns(AVRO, (KEY, "v", "ts"), "ts")))


def at(names: str, as_of: str | None = None) -> CommittedTimes:
    return committed_times(Timeline.from_names(names.split()), as_of)


def compacted(instant: str, of: str, *given: tuple[object, ...]) -> bytes:
    """A block as log compaction writes it."""
    (block,) = scan_blocks(plain := data(instant, *given))
    header = {HeaderKey(key): text for key, text in block.header.items()} | {HeaderKey.COMPACTED_BLOCK_TIMES: of}
    return encode_block(block.type, header, plain[block.content_offset : block.content_offset + block.content_size])


# which blocks count


def test_blocks_come_in_the_order_of_files_then_of_blocks() -> None:
    one = Slice().log(data("05", ("a", 1)), data("03", ("a", 1))).log(data("04", ("a", 1)))
    assert counting(one) == ["05", "03", "04"]


@pytest.mark.parametrize(
    ("names", "as_of", "seen"),
    [
        ("02.deltacommit 03.deltacommit 04.deltacommit", None, ["02", "03", "04"]),
        ("02.deltacommit 03.deltacommit.inflight 04.deltacommit", None, ["02", "04"]),
        ("02.deltacommit 03.deltacommit.requested 04.deltacommit", None, ["02", "04"]),
        ("02.deltacommit 04.deltacommit", None, ["02", "04"]),
        ("03.deltacommit 04.replacecommit", None, ["02", "03", "04"]),
        ("02.deltacommit.inflight 03.commit 04.deltacommit", None, ["03", "04"]),
        ("02.deltacommit 03.deltacommit 04.deltacommit", "03", ["02", "03"]),
        ("02.deltacommit 03.deltacommit 04.deltacommit", "01", []),
        ("02.deltacommit 03.rollback 04.clean", None, ["02"]),
    ],
)
def test_a_block_counts_if_its_instant_is_committed_and_not_later_than_the_readers_time(
    names: str, as_of: str | None, seen: list[str]
) -> None:
    one = Slice().log(data("02", ("a", 1)), deletes("03", ["a"])).log(data("04", ("a", 1)))
    assert counting(one, at(names, as_of)) == seen


def test_nothing_counts_without_a_single_commit() -> None:
    assert counting(Slice().log(data("02", ("a", 1))), at("02.deltacommit.requested")) == []


def test_reading_goes_on_behind_a_block_and_a_rollback_that_are_later_than_the_readers_time() -> None:
    rollback = encode_rollback_block(instant="09", target_instant="08")
    one = Slice().log(data("02", ("a", 1))).log(data("08", ("a", 2)), rollback, data("03", ("a", 3)))
    assert counting(one, at("02.deltacommit 03.deltacommit", "05")) == ["02", "03"]


def test_a_rollback_takes_back_all_that_its_target_wrote_before_it_and_nothing_else() -> None:
    rollback = encode_rollback_block(instant="06", target_instant="04")
    one = Slice().log(data("03", ("a", 1)), data("04", ("a", 2)), deletes("04", ["b"])).log(data("05", ("a", 3)))
    one.log(rollback).log(data("04", ("c", 1)), data("07", ("d", 1)))
    assert counting(one) == ["03", "05", "04", "07"]
    counts = scan(one).counts
    assert (counts.files, counts.blocks, counts.rollback_blocks, counts.corrupt_blocks) == (4, 7, 1, 0)


def test_a_rollback_of_nothing_changes_nothing() -> None:
    one = Slice().log(encode_rollback_block(instant="06", target_instant="04"), data("05", ("a", 3)))
    assert counting(one) == ["05"]


def test_a_block_of_log_compaction_stands_where_the_last_block_it_is_made_of_stood() -> None:
    one = Slice().log(data("02", ("a", 1))).log(data("03", ("a", 2))).log(data("05", ("a", 3)))
    one.log(compacted("04", "02,03", ("a", 2)))
    assert counting(one) == ["04", "05"]
    assert counting(one, at("02.deltacommit 03.deltacommit 04.logcompaction.inflight 05.deltacommit")) == ["02", "03", "05"]
    assert counting(one, at("02.deltacommit 03.deltacommit 04.deltacommit 05.deltacommit", "03")) == ["02", "03"]


def test_log_compactions_of_log_compactions_stand_for_all_that_went_in() -> None:
    one = Slice().log(data("02", ("a", 1))).log(data("03", ("a", 2))).log(compacted("04", "02,03", ("a", 2)))
    one.log(data("05", ("a", 3))).log(data("07", ("a", 4))).log(compacted("06", "04,05", ("a", 3)))
    assert counting(one) == ["06", "07"]


def test_a_rolled_back_log_compaction_leaves_the_blocks_it_was_made_of() -> None:
    one = Slice().log(data("02", ("a", 1)), compacted("04", "02", ("a", 1)))
    one.log(encode_rollback_block(instant="05", target_instant="04"))
    assert counting(one) == ["02"]


# what is read


@pytest.mark.parametrize("parquet", [False, True])
def test_rows_and_deletes_are_read_in_the_columns_asked_for(parquet: bool) -> None:
    one = Slice().log(data("02", ("a", 1, 5), ("b", 2, 6), parquet=parquet), deletes("02", ["c"], pa.array([7])))
    rows, gone = read(one)
    assert rows.keys.to_pylist() == ["a", "b"]
    assert rows.rows.column_names == [KEY, "v", "ts"] == gone.rows.column_names
    assert rows.rows["v"].to_pylist() == [1, 2]
    assert rows.ordering.to_pylist() == [5, 6]
    assert not rows.empty.any()
    assert gone.keys.to_pylist() == ["c"]
    assert gone.empty.all()
    assert gone.ordering.to_pylist() == [7]
    assert rows.rows.schema == gone.rows.schema


@pytest.mark.parametrize("parquet", [False, True])
def test_a_narrower_block_is_read_in_the_wider_schema_of_the_table(parquet: bool) -> None:
    old = pa.schema([("id", pa.string()), ("v", pa.int32())])
    (records,) = read(Slice().log(data("02", ("a", 1), columns=old, parquet=parquet)))
    assert records.rows["v"].type == pa.int64()
    assert records.rows["v"].to_pylist() == [1]
    assert records.ordering.to_pylist() == [None]


def test_a_wider_block_is_read_without_the_columns_the_table_does_not_have() -> None:
    narrow = with_meta_columns(arrow_to_avro(pa.schema([("id", pa.string()), ("v", pa.int64())]), "t"))
    (records,) = read(Slice().log(data("02", ("a", 1, 5))), LogColumns(narrow, (KEY, "id", "v")))
    assert records.rows.column_names == [KEY, "id", "v"]
    assert records.ordering is None


def test_deletes_without_an_ordering_value_or_with_one_of_another_type_have_none() -> None:
    one = Slice().log(
        deletes("02", ["a"]), deletes("02", ["b"], pa.array(["7"])), deletes("02", ["c"], pa.array([7], pa.int32()))
    )
    assert [r.ordering.to_pylist() for r in read(one)] == [[None], [None], [None]]


def test_many_deletes_come_in_parts_each_with_its_ordering_values() -> None:
    keys = [f"{n:05}" for n in range(3_000)]
    one = Slice().log(deletes("02", keys, pa.array(range(3_000), pa.int64())))
    found = read(one, LogColumns(AVRO, (KEY, "v", "ts"), "ts", part_bytes=1))
    assert [len(part.keys) for part in found] == [1024, 1024, 952]
    assert [key for part in found for key in part.keys.to_pylist()] == keys
    assert [value for part in found if part.ordering is not None for value in part.ordering.to_pylist()] == list(range(3_000))


def test_a_missing_file_is_named() -> None:
    one = Slice().log(data("02", ("a", 1)))
    one.storage.delete(one.made.log_files[0].path)
    with pytest.raises(CorruptFile, match=r"\.f-0_01\.log\.1_0-0-0 is missing"):
        counting(one)


def test_blocks_that_hold_no_rows_of_a_table_are_refused_with_their_place() -> None:
    header = {HeaderKey.INSTANT_TIME: "02", HeaderKey.SCHEMA: avro_text(AVRO)}
    with pytest.raises(Unsupported, match=r"log\.1_0-0-0, block at byte 0: a CDC_DATA block"):
        read(Slice().log(encode_block(BlockType.CDC_DATA, header, struct.pack(">ii", 3, 0))))


def test_records_of_an_hfile_block_are_read_as_those_of_other_blocks() -> None:
    log = (LOGS / "hfile_trips.bin").read_bytes()
    (block,) = scan_blocks(log)
    columns = LogColumns(parse_avro(block.schema), (KEY, "ts", "fare"), "ts")
    (found,) = read(Slice().log(log), columns, times=CommittedTimes(frozenset({block.instant})))
    assert (found.keys.to_pylist(), found.rows["fare"].to_pylist(), found.empty.tolist()) == (["a"], [10.0], [False])
    assert found.ordering is not None
    assert found.ordering.to_pylist() == [2]


def test_keys_may_be_read_from_the_column_they_are_made_of() -> None:
    numbers = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    avro = with_meta_columns(arrow_to_avro(numbers, "t"))
    table = pa.table({**{name: pa.nulls(2, pa.string()) for name in META_COLUMNS}, "id": [7, -1], "ts": [1, 2]})
    block = encode_avro_block(table, instant="02", schema=avro)
    (found,) = read(Slice().log(block), LogColumns(avro, ("id", "ts"), "ts", key="id"))
    assert found.keys.to_pylist() == ["7", "-1"]
    with pytest.raises(CorruptFile, match="2 of 2 records have no record key"):
        read(Slice().log(block), LogColumns(avro, (KEY, "ts"), "ts"))


def test_a_record_without_key_is_an_error_with_its_place() -> None:
    rows = pa.table({name: pa.nulls(1, pa.string()) for name in (*(f["name"] for f in AVRO["fields"][:5]), "id")})
    narrow = with_meta_columns(arrow_to_avro(pa.schema([("id", pa.string())]), "t"))
    with pytest.raises(CorruptFile, match=r"block at byte 0: 1 of 1 records have no record key"):
        read(Slice().log(encode_avro_block(rows, instant="02", schema=narrow)))


# damage


FIRST, LAST = data("02", ("a", 1, 1), ("b", 2, 1)), data("03", ("a", 3, 2))


def test_a_log_torn_anywhere_in_its_last_block_gives_what_the_blocks_before_hold() -> None:
    for end in range(len(LAST)):
        one = Slice().base().log(FIRST + LAST[:end])
        assert counting(one) == ["02"], end
        assert scan(one).counts.corrupt_blocks == (end > 0)
        assert one.values() == {"a": 1, "b": 2}


def test_a_torn_block_is_passed_over_where_a_later_one_was_appended() -> None:
    for end in range(6, len(FIRST)):
        assert Slice().base().log(FIRST[:end] + LAST).values() == {"a": 3}, end


@pytest.mark.parametrize("block", [data("02", ("a", 1, 1)), data("02", ("a", 1, 1), parquet=True), deletes("02", ["b"])])
def test_a_flipped_byte_in_any_structural_field_is_an_error_or_a_block_passed_over_never_a_wrong_row(block: bytes) -> None:
    (found,) = scan_blocks(block)
    texts = [(at, at + len(text)) for text in found.header.values() for at in [block.index(text.encode())]]
    texts.append((found.content_offset, found.content_offset + found.content_size))
    structural = [at for at in range(len(block)) if not any(start <= at < end for start, end in texts)]
    assert len(structural) < 80
    more = data("03", ("z", 3, 2))
    right = Slice().base(("b", 9, 0)).log(block + more).values()
    passed_over = Slice().base(("b", 9, 0)).log(more).values()
    assert right != passed_over
    for place in structural:
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(block)
            damaged[place] ^= flip
            assert _answer(Slice().base(("b", 9, 0)).log(bytes(damaged) + more)) in (right, passed_over, "named"), (place, flip)


@pytest.mark.parametrize("end", range(1, len(LAST), 7))
def test_a_damaged_block_of_ours_is_an_error_once_its_write_was_completed(end: int) -> None:
    of = Slice().base().log(FIRST, of="02").log(LAST[:end], of="03")
    with pytest.raises(CorruptFile, match=r"log\.2_0-\d+-0, block at byte 0: it is damaged, and write 03 had completed it"):
        of.values()
    assert of.values(rules_of(times=CommittedTimes(frozenset({"01", "02"})))) == {"a": 1, "b": 2}, "a write that died"
    of.log(encode_rollback_block(instant="04", target_instant="03"))
    assert of.values() == {"a": 1, "b": 2}, "a write that died, and was taken back"


def test_a_damaged_block_of_ours_does_not_take_its_neighbours_with_it_unseen() -> None:
    second = bytearray(deletes("02", ["b"]))
    second[0] ^= 0xFF
    with pytest.raises(CorruptFile, match="write 02 had completed it"):
        Slice().base().log(FIRST + bytes(second), of="02").values()


def _answer(one: Slice) -> object:
    try:
        return one.values()
    except PenstockError as error:
        return "named" if "/t/.f-0_01.log.1_0-0-0, b" in str(error) else str(error)


def test_a_block_that_claims_terabytes_is_passed_over_and_nothing_is_allocated_for_it() -> None:
    huge = FIRST[:6] + struct.pack(">q", 1 << 42) + FIRST[14:]
    before = pa.total_allocated_bytes()
    assert Slice().base().log(huge + LAST).values() == {"a": 3}
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_content_that_claims_terabytes_is_an_error() -> None:
    (block,) = scan_blocks(FIRST)
    damaged = bytearray(FIRST)
    damaged[block.content_offset - 8 : block.content_offset] = struct.pack(">q", 1 << 42)
    with pytest.raises(CorruptFile, match=r"log\.1_0-0-0, block at byte 0: a content of 4398046511104 bytes"):
        counting(Slice().log(bytes(damaged)))


@pytest.mark.parametrize(
    ("place", "number", "message"), [(14, 9, "log format version 9"), (18, 2, "block type 2"), (18, 77, "77")]
)
def test_a_version_or_type_that_is_not_known_is_refused_with_its_place(place: int, number: int, message: str) -> None:
    damaged = FIRST[:place] + struct.pack(">i", number) + FIRST[place + 4 :]
    with pytest.raises(Unsupported, match=rf"log\.1_0-0-0, block at byte 0: .*{message}"):
        counting(Slice().log(damaged))


def test_positions_that_cannot_be_read_are_an_error_with_their_place() -> None:
    written = encode_avro_block(rows("02", ("a", 2, 2)), instant="02", schema=AVRO, positions=np.array([0]))
    one, others = Slice().base(("a", 1, 1)).log(written, of="02"), Slice().base(("a", 1, 1)).log(written)
    assert touched_positions(others.made, scan_slice(others.storage, others.made, ALL_TIMES)) is None, (
        "theirs may count in another base file"
    )
    assert touched_positions(one.made, scan_slice(one.storage, one.made, ALL_TIMES)).tolist() == [0]  # type: ignore[union-attr]
    (block,) = scan_blocks(log := one.storage.read(one.made.log_files[0].path))
    text = block.header[HeaderKey.RECORD_POSITIONS].encode()
    damaged = Slice().base(("a", 1, 1)).log(log.replace(text, b"!" + text[1:]), of="02")
    with pytest.raises(CorruptFile, match=r"log\.1_0-\d+-0, block at byte 0: positions of records cannot be read"):
        touched_positions(damaged.made, scan_slice(damaged.storage, damaged.made, ALL_TIMES))


def test_a_file_that_is_no_log_is_refused() -> None:
    with pytest.raises(CorruptFile, match="there is no block"):
        counting(Slice().log(b"PAR1 and so on"))


def test_an_empty_log_file_holds_nothing() -> None:
    assert counting(Slice().log(b"")) == []

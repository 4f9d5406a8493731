"""Which blocks of a slice's log files count, and what is read of them."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptFile, PenstockError, Unsupported
from penstock.filegroup.log.committed_times import CommittedTimes, committed_times
from penstock.filegroup.log.scan import (
    LogColumns,
    LogScan,
    read_records,
    scan_log_files,
    scan_slice,
    touched_positions,
)
from penstock.filegroup.model import LogFile
from penstock.formats.log import BlockType, HeaderKey, encode_avro_block, encode_block, encode_rollback_block, scan_blocks
from penstock.merge.kernels.fold import LogRecords
from penstock.schema import META_COLUMNS, arrow_to_avro, avro_text, with_meta_columns
from penstock.schema.avro import parse_avro
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.timeline import Timeline
from tests.unit.filegroup.slices import ALL_TIMES, AVRO, Slice, data, deletes, rows, rules_of

LOGS = Path(__file__).resolve().parents[3] / "data" / "logs"
KEY = "_hoodie_record_key"


def scan(built: Slice, times: CommittedTimes = ALL_TIMES) -> LogScan:
    return scan_log_files(built.storage, built.made.log_files, times)


def committed_instants(built: Slice, times: CommittedTimes = ALL_TIMES) -> list[str]:
    return [block.instant for _, block in scan(built, times).blocks]


def read(built: Slice, columns: LogColumns | None = None, times: CommittedTimes = ALL_TIMES) -> list[LogRecords]:
    blocks = scan(built, times).blocks
    return list(read_records(built.storage, blocks, columns or LogColumns(AVRO, (KEY, "v", "ts"), "ts")))


def at(names: str, as_of: str | None = None) -> CommittedTimes:
    return committed_times(Timeline.from_names(names.split()), "/t", as_of)


def compacted(instant: str, of: str, *given: tuple[object, ...]) -> bytes:
    """A block as log compaction writes it."""
    (block,) = scan_blocks(plain := data(instant, *given))
    header = {HeaderKey(key): text for key, text in block.header.items()} | {HeaderKey.COMPACTED_BLOCK_TIMES: of}
    return encode_block(block.type, header, plain[block.content_offset : block.content_offset + block.content_size])


# which blocks count


def test_blocks_come_in_the_order_of_files_then_of_blocks() -> None:
    built = Slice().log(data("05", ("a", 1)), data("03", ("a", 1))).log(data("04", ("a", 1)))
    assert committed_instants(built) == ["05", "03", "04"]


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
def test_a_block_counts_if_its_instant_is_committed_and_not_later_than_the_query(
    names: str, as_of: str | None, seen: list[str]
) -> None:
    built = Slice().log(data("02", ("a", 1)), deletes("03", ["a"])).log(data("04", ("a", 1)))
    assert committed_instants(built, at(names, as_of)) == seen


def test_nothing_counts_without_a_single_commit() -> None:
    assert committed_instants(Slice().log(data("02", ("a", 1))), at("02.deltacommit.requested")) == []


def test_blocks_behind_a_block_and_a_rollback_later_than_the_query_are_read() -> None:
    rollback = encode_rollback_block(instant="09", target_instant="08")
    built = Slice().log(data("02", ("a", 1))).log(data("08", ("a", 2)), rollback, data("03", ("a", 3)))
    assert committed_instants(built, at("02.deltacommit 03.deltacommit", "05")) == ["02", "03"]


def test_a_rollback_cancels_all_that_its_target_wrote_before_it_and_nothing_else() -> None:
    rollback = encode_rollback_block(instant="06", target_instant="04")
    built = Slice().log(data("03", ("a", 1)), data("04", ("a", 2)), deletes("04", ["b"])).log(data("05", ("a", 3)))
    built.log(rollback).log(data("04", ("c", 1)), data("07", ("d", 1)))
    assert committed_instants(built) == ["03", "05", "04", "07"]
    counts = scan(built).counts
    assert (counts.files, counts.blocks, counts.rollback_blocks, counts.corrupt_blocks) == (4, 7, 1, 0)


def test_a_rollback_of_nothing_changes_nothing() -> None:
    built = Slice().log(encode_rollback_block(instant="06", target_instant="04"), data("05", ("a", 3)))
    assert committed_instants(built) == ["05"]


def test_a_block_of_log_compaction_takes_the_place_of_the_last_block_it_is_made_of() -> None:
    built = Slice().log(data("02", ("a", 1))).log(data("03", ("a", 2))).log(data("05", ("a", 3)))
    built.log(compacted("04", "02,03", ("a", 2)))
    assert committed_instants(built) == ["04", "05"]
    assert committed_instants(built, at("02.deltacommit 03.deltacommit 04.logcompaction.inflight 05.deltacommit")) == [
        "02",
        "03",
        "05",
    ]
    assert committed_instants(built, at("02.deltacommit 03.deltacommit 04.deltacommit 05.deltacommit", "03")) == ["02", "03"]


def test_a_log_compaction_of_log_compactions_replaces_the_blocks_of_all() -> None:
    built = Slice().log(data("02", ("a", 1))).log(data("03", ("a", 2))).log(compacted("04", "02,03", ("a", 2)))
    built.log(data("05", ("a", 3))).log(data("07", ("a", 4))).log(compacted("06", "04,05", ("a", 3)))
    assert committed_instants(built) == ["06", "07"]


def test_a_rolled_back_log_compaction_leaves_the_blocks_it_was_made_of() -> None:
    built = Slice().log(data("02", ("a", 1)), compacted("04", "02", ("a", 1)))
    built.log(encode_rollback_block(instant="05", target_instant="04"))
    assert committed_instants(built) == ["02"]


# what is read


@pytest.mark.parametrize("parquet", [False, True])
def test_rows_and_deletes_are_read_in_the_wanted_columns(parquet: bool) -> None:
    built = Slice().log(data("02", ("a", 1, 5), ("b", 2, 6), parquet=parquet), deletes("02", ["c"], pa.array([7])))
    rows, gone = read(built)
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
    built = Slice().log(
        deletes("02", ["a"]), deletes("02", ["b"], pa.array(["7"])), deletes("02", ["c"], pa.array([7], pa.int32()))
    )
    assert [r.ordering.to_pylist() for r in read(built)] == [[None], [None], [None]]


def test_many_deletes_come_in_parts_each_with_its_ordering_values() -> None:
    keys = [f"{n:05}" for n in range(3_000)]
    built = Slice().log(deletes("02", keys, pa.array(range(3_000), pa.int64())))
    parts = read(built, LogColumns(AVRO, (KEY, "v", "ts"), "ts", part_bytes=1))
    assert [len(part.keys) for part in parts] == [1024, 1024, 952]
    assert pa.chunked_array([part.keys for part in parts]).to_pylist() == keys
    assert pa.chunked_array([part.ordering for part in parts]).to_pylist() == list(range(3_000))


def test_a_missing_file_is_named() -> None:
    built = Slice().log(data("02", ("a", 1)))
    built.storage.delete(built.made.log_files[0].path)
    with pytest.raises(CorruptFile, match=r"\.f-0_01\.log\.1_0-0-0 is missing"):
        committed_instants(built)


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


FIRST = data("02", ("a", 1, 1), ("b", 2, 1))
LAST = data("03", ("a", 3, 2))


def test_a_log_torn_anywhere_in_its_last_block_has_the_rows_of_the_blocks_before() -> None:
    for end in range(len(LAST)):
        built = Slice().base().log(FIRST + LAST[:end])
        assert committed_instants(built) == ["02"], end
        assert scan(built).counts.corrupt_blocks == (end > 0)
        assert built.values() == {"a": 1, "b": 2}


def test_a_torn_block_is_skipped_if_a_later_one_was_appended() -> None:
    for end in range(6, len(FIRST)):
        assert Slice().base().log(FIRST[:end] + LAST).values() == {"a": 3}, end


@pytest.mark.parametrize("block", [data("02", ("a", 1, 1)), data("02", ("a", 1, 1), parquet=True), deletes("02", ["b"])])
def test_a_flipped_byte_in_any_structural_field_is_an_error_or_a_skipped_block_never_a_wrong_row(block: bytes) -> None:
    (scanned,) = scan_blocks(block)
    contents = [range(scanned.content_offset, scanned.content_offset + scanned.content_size)]
    for text in scanned.header.values():
        start = block.index(text.encode())
        contents.append(range(start, start + len(text)))
    structural = [place for place in range(len(block)) if not any(place in content for content in contents)]
    assert len(structural) < 80
    more = data("03", ("z", 3, 2))
    right = Slice().base(("b", 9, 0)).log(block + more).values()
    skipped = Slice().base(("b", 9, 0)).log(more).values()
    assert right != skipped
    for place in structural:
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(block)
            damaged[place] ^= flip
            assert _answer(Slice().base(("b", 9, 0)).log(bytes(damaged) + more)) in (right, skipped, "named"), (place, flip)


@pytest.mark.parametrize("end", range(1, len(LAST), 7))
def test_a_damaged_block_of_a_completed_penstock_write_is_an_error(end: int) -> None:
    of = Slice().base().log(FIRST, of="02").log(LAST[:end], of="03")
    with pytest.raises(CorruptFile, match=r"log\.2_0-\d+-0, block at byte 0: it is damaged, and write 03 had completed it"):
        of.values()
    assert of.values(rules_of(times=CommittedTimes(frozenset({"01", "02"})))) == {"a": 1, "b": 2}, "a write that died"
    of.log(encode_rollback_block(instant="04", target_instant="03"))
    assert of.values() == {"a": 1, "b": 2}, "a write that died, and was taken back"


def test_a_damaged_block_of_penstock_does_not_hide_its_neighbours_silently() -> None:
    second = bytearray(deletes("02", ["b"]))
    second[0] ^= 0xFF
    with pytest.raises(CorruptFile, match="write 02 had completed it"):
        Slice().base().log(FIRST + bytes(second), of="02").values()


def record_size(built: Slice, instant: str, file: LogFile, size_bytes: int) -> None:
    """Store a delta commit that records the size of a log file."""
    stat = WriteStat("f-0", "", file.name, num_writes=1, file_size_in_bytes=size_bytes)
    built.storage.write_new(f"/t/.hoodie/{instant}.deltacommit", write_commit(CommitMetadata((stat,))))


@pytest.mark.parametrize("owner", ["02", None], ids=["a log of Penstock", "a log of Hudi"])
@pytest.mark.parametrize("later", [b"", LAST], ids=["at the end", "before a later append"])
def test_bytes_behind_the_size_that_a_write_recorded_are_not_its_damage(owner: str | None, later: bytes) -> None:
    expected = {"a": 3, "b": 2} if later else {"a": 1, "b": 2}
    for tail in (LAST[:6], LAST[:17], LAST[:-1], bytes(6), bytes(300), b"\xa5" * 77):
        built = Slice().base().log(FIRST, tail, later, of=owner)
        record_size(built, "02", built.made.log_files[0], len(FIRST))
        times = replace(ALL_TIMES, base_path="/t")
        assert built.values(rules_of(times=times)) == expected, tail
        assert scan(built, times).counts.corrupt_blocks == 1


def test_bytes_before_the_recorded_size_are_damage_whatever_follows_them() -> None:
    for tail in (b"", bytes(300), LAST[:-1]):
        for end in range(1, len(FIRST), 11):
            spoiled = FIRST[:end] + bytes([FIRST[end] ^ 0xFF]) * (len(FIRST) - end)
            built = Slice().base().log(spoiled, tail, of="02")
            record_size(built, "02", built.made.log_files[0], len(FIRST))
            with pytest.raises(
                CorruptFile, match=r"block at byte 0: it is damaged, and write 02 had completed it|there is no block"
            ):
                built.values(rules_of(times=replace(ALL_TIMES, base_path="/t")))


def test_without_a_readable_commit_the_size_is_not_known_and_damage_stays_an_error() -> None:
    for content in (None, b"{", write_commit(CommitMetadata(()))):
        built = Slice().base().log(FIRST, LAST[:6], of="02")
        if content is not None:
            built.storage.write_new("/t/.hoodie/02.deltacommit", content)
        with pytest.raises(CorruptFile, match="write 02 had completed it"):
            built.values(rules_of(times=replace(ALL_TIMES, base_path="/t")))


SKIPS = replace(ALL_TIMES, base_path="/t", skips_damaged=True)


@pytest.mark.parametrize("block", [data("02", ("a", 1, 1)), data("02", ("a", 1, 1), parquet=True), deletes("02", ["b"])])
@pytest.mark.parametrize("owner", ["02", None], ids=["a log of Penstock", "a log of Hudi"])
def test_no_flipped_byte_in_a_structural_field_stops_a_scan_that_skips_damage(block: bytes, owner: str | None) -> None:
    (scanned,) = scan_blocks(block)
    more = data("03", ("z", 3, 2))
    right = Slice().base(("b", 9, 0)).log(block + more).values()
    skipped = Slice().base(("b", 9, 0)).log(more).values()
    for place in (*range(30), *range(scanned.content_offset - 8, scanned.content_offset), *range(len(block) - 8, len(block))):
        damaged = bytearray(block)
        damaged[place] ^= 0xFF
        built = Slice().base(("b", 9, 0)).log(bytes(damaged) + more, of=owner)
        assert built.values(rules_of(times=SKIPS)) in (right, skipped), place
        if owner and built.values(rules_of(times=SKIPS)) == skipped:
            assert [found.instant for found in scan(built, SKIPS).damaged] == ["02"]


def test_a_skipped_block_is_listed_with_what_its_write_had_put_into_the_log() -> None:
    built = Slice().base().log(FIRST[:-1] + b"x", LAST, of="02")
    record_size(built, "02", built.made.log_files[0], len(FIRST) + len(LAST))
    (lost,) = scan(built, SKIPS).damaged
    assert (lost.path, lost.offset, lost.size_bytes) == (built.made.log_files[0].path, 0, len(FIRST))
    assert (lost.instant, lost.records) == ("02", 1)
    assert scan(built, SKIPS).counts.corrupt_blocks == 1


def test_the_blocks_that_a_log_compaction_joined_are_read_if_the_joined_block_is_damaged() -> None:
    joined = bytearray(compacted("05", "02,03", ("a", 3, 2), ("b", 2, 1)))
    (block,) = scan_blocks(bytes(joined))
    joined[block.content_offset + 4 : block.content_offset + 8] = struct.pack(">i", 1 << 20)
    built = Slice().base().log(FIRST, LAST).log(bytes(joined))
    assert built.values(rules_of(times=SKIPS)) == {"a": 3, "b": 2}
    assert [lost.instant for lost in scan(built, SKIPS).damaged] == ["05"]


def test_damage_of_a_write_that_never_completed_or_was_rolled_back_is_no_loss() -> None:
    torn = Slice().base().log(FIRST, of="02").log(LAST[:-1], of="03")
    assert scan(torn, replace(SKIPS, completed=frozenset({"01", "02"}))).damaged == ()
    torn.log(encode_rollback_block(instant="04", target_instant="03"))
    assert scan(torn, SKIPS).damaged == ()


def _answer(built: Slice) -> object:
    try:
        return built.values()
    except PenstockError as error:
        return "named" if "/t/.f-0_01.log.1_0-0-0, b" in str(error) else str(error)


def test_a_block_that_claims_terabytes_is_skipped_and_nothing_is_allocated_for_it() -> None:
    huge = FIRST[:6] + struct.pack(">q", 1 << 42) + FIRST[14:]
    before = pa.total_allocated_bytes()
    assert Slice().base().log(huge + LAST).values() == {"a": 3}
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_content_that_claims_terabytes_is_an_error() -> None:
    (block,) = scan_blocks(FIRST)
    damaged = bytearray(FIRST)
    damaged[block.content_offset - 8 : block.content_offset] = struct.pack(">q", 1 << 42)
    with pytest.raises(CorruptFile, match=r"log\.1_0-0-0, block at byte 0: a content of 4398046511104 bytes"):
        committed_instants(Slice().log(bytes(damaged)))


@pytest.mark.parametrize(
    ("place", "number", "message"), [(14, 9, "log format version 9"), (18, 2, "block type 2"), (18, 77, "77")]
)
def test_a_version_or_type_that_is_not_known_is_refused_with_its_place(place: int, number: int, message: str) -> None:
    damaged = FIRST[:place] + struct.pack(">i", number) + FIRST[place + 4 :]
    with pytest.raises(Unsupported, match=rf"log\.1_0-0-0, block at byte 0: .*{message}"):
        committed_instants(Slice().log(damaged))


def positions_in(built: Slice) -> list[int] | None:
    positions = touched_positions(built.made, scan_slice(built.storage, built.made, ALL_TIMES))
    return None if positions is None else positions.tolist()


def test_positions_that_cannot_be_read_are_an_error_with_their_place() -> None:
    written = encode_avro_block(rows("02", ("a", 2, 2)), instant="02", schema=AVRO, positions=np.array([0]))
    built = Slice().base(("a", 1, 1)).log(written, of="02")
    others = Slice().base(("a", 1, 1)).log(written)
    assert positions_in(others) is None, "positions of another writer may count in another base file"
    assert positions_in(built) == [0]
    (block,) = scan_blocks(log := built.storage.read(built.made.log_files[0].path))
    text = block.header[HeaderKey.RECORD_POSITIONS].encode()
    damaged = Slice().base(("a", 1, 1)).log(log.replace(text, b"!" + text[1:]), of="02")
    with pytest.raises(CorruptFile, match=r"log\.1_0-\d+-0, block at byte 0: positions of records cannot be read"):
        positions_in(damaged)


def test_a_file_that_is_no_log_is_refused() -> None:
    with pytest.raises(CorruptFile, match="there is no block"):
        committed_instants(Slice().log(b"PAR1 and so on"))


def test_an_empty_log_file_holds_nothing() -> None:
    assert committed_instants(Slice().log(b"")) == []

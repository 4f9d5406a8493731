"""Log files: real ones of Hudi's, round trips of ours, and damage of every kind."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CorruptFile, PenstockError, SchemaError, Unsupported
from penstock.formats.avro_columns import encode_block
from penstock.formats.delete_records import deletes_of
from penstock.formats.log_blocks import (
    MAGIC,
    BlockType,
    HeaderKey,
    LogBlock,
    avro_block,
    delete_block,
    parquet_block,
    read_cells,
    read_content,
    read_deletes,
    read_row_parts,
    read_rows,
    rollback_block,
    scan_blocks,
    scan_blocks_backwards,
    write_block,
)
from penstock.schema import META_COLUMNS, avro_of_arrow, with_meta_columns
from tests.kit.golden import unpack_golden
from tests.kit.readers import hudi_rs_rows, rows_of
from tests.unit.golden import NAMES, golden_files

LOGS = Path(__file__).resolve().parents[2] / "data" / "logs"
REAL = {path.stem: path.read_bytes() for path in sorted(LOGS.glob("*.bin"))}
IN_TABLES = {(name, path): data for name in NAMES for path, data in golden_files(name, ".*.log.*").items()}
SCHEMA = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'
ONE_AND_MINUS_ONE = pa.table({"a": pa.array([1, -1], pa.int32())})
LAST_TIME = "20250101000000000"


def one(log: bytes) -> LogBlock:
    (block,) = scan_blocks(log)
    return block


def rows(**columns: Any) -> pa.Table:
    meta = {name: ["m"] * len(next(iter(columns.values()))) for name in META_COLUMNS}
    return pa.table({**meta, **columns})


def types(log: bytes) -> list[str]:
    return [block.type.name for block in scan_blocks(log)]


# real files


def test_there_are_real_logs_of_every_type_hudi_writes_into_tables() -> None:
    found = {block.type for log in [*REAL.values(), *IN_TABLES.values()] for block in scan_blocks(log)}
    assert found == {BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.DELETE, BlockType.COMMAND, BlockType.HFILE_DATA}
    assert len(IN_TABLES) == 3


@pytest.mark.parametrize("log", [*REAL.values(), *IN_TABLES.values()], ids=[*REAL, *(name for name, _ in IN_TABLES)])
def test_a_real_log_is_read_forwards_backwards_and_written_again(log: bytes) -> None:
    block = one(log)
    assert list(scan_blocks_backwards(log)) == [block]
    assert block.size == len(log)
    header = {HeaderKey(key): text for key, text in block.header.items()}
    assert write_block(block.type, header, read_content(log, block)) == log


def test_an_avro_log_of_hudi_is_the_bytes_we_write_for_its_rows() -> None:
    for name in ("avro_trips", "avro_types"):
        log = REAL[name]
        block = one(log)
        assert avro_block(read_rows(log, block), instant=block.instant, schema=block.schema) == log


def test_a_rollback_of_hudi_is_the_block_we_write() -> None:
    block = one(REAL["rollback"])
    assert (block.instant, block.target_instant, block.is_rollback) == ("20250126040936578", "20250126040826878", True)
    assert rollback_block(instant="20250126040936578", target_instant="20250126040826878") == REAL["rollback"]


def test_deletes_of_hudi_are_the_block_we_write() -> None:
    log = REAL["delete"]
    block = one(log)
    found = read_deletes(log, block)
    assert found.keys.to_pylist() == [
        "e96c4396-3fad-413a-a942-4cb36106d721",
        "9909a8b1-2d15-4d3d-8ec9-efc48c536a00",
        "334e26e9-8355-45cc-97c6-c31daf0df330",
    ]
    assert set(found.partitions.to_pylist()) == {"city=san_francisco"}
    assert found.ordering(pa.int64()).to_pylist() == [None] * 3
    ours = delete_block(deletes_of(found.keys, found.partitions), instant=block.instant, schema=block.schema)
    assert read_content(ours, one(ours)) == read_content(log, block)
    assert one(ours).header == block.header


@pytest.mark.parametrize("name", ["avro_trips", "parquet_trips"])
def test_rows_of_hudi_have_the_values_that_were_written(name: str) -> None:
    row = read_rows(REAL[name], one(REAL[name])).to_pylist()[0]
    assert row["_hoodie_record_key"] == row["uuid"] == "334e26e9-8355-45cc-97c6-c31daf0df330"
    assert (row["ts"], row["rider"], row["driver"], row["fare"], row["city"]) == (
        1695159649088,
        "rider-A",
        "driver-K",
        29.1,
        "san_francisco",
    )


def test_dates_decimals_and_moments_of_hudi_have_the_values_that_fastavro_reads() -> None:
    log = REAL["avro_types"]
    block = one(log)
    content = bytes(read_content(log, block))
    expected = fastavro.schemaless_reader(io.BytesIO(content[12:]), fastavro.parse_schema(json.loads(block.schema)))
    assert read_rows(log, block).to_pylist() == [expected]
    assert str(expected["amount"]) == "500.00"


@pytest.mark.parametrize("name", ["mor_parquet_v6_nonpartitioned", "trips_mor_avro_v6_trips_8i1u"])
def test_the_log_of_a_real_table_holds_the_rows_that_the_table_answers_with(name: str, tmp_path: Path) -> None:
    pytest.importorskip("hudi", reason="hudi-rs gives the table's answer")
    answer = {row["_hoodie_record_key"]: row for row in rows_of(hudi_rs_rows(unpack_golden(name, tmp_path)), meta=True)}
    (log,) = [data for (table, _), data in IN_TABLES.items() if table == name]
    found = rows_of(read_rows(log, one(log)), meta=True)
    assert found == [answer[row["_hoodie_record_key"]] for row in found]


def test_the_keys_and_records_of_a_real_hfile_block_are_found() -> None:
    log = REAL["hfile_files"]
    block = one(log)
    cells = read_cells(log, block)
    assert cells.keys() == [b"__all_partitions__", b"city=chennai"]
    parsed, data = fastavro.parse_schema(json.loads(block.schema)), bytes(cells.data)
    for start, end in zip(cells.value_starts, cells.value_ends, strict=True):
        stream = io.BytesIO(data[start:end])
        record = fastavro.schemaless_reader(stream, parsed)
        assert isinstance(record, dict)
        assert record["type"] in (1, 2)
        assert stream.tell() == end - start


def test_rows_of_a_table_are_read_from_a_real_hfile_block() -> None:
    """Hudi leaves a column named `key` empty, and its reader puts the record key there."""
    log = REAL["hfile_trips"]
    wanted = ["id", "city", "ts", "fare", "key", "_hoodie_record_key"]
    expected = [{"id": "a", "city": "x", "ts": 2, "fare": 10.0, "key": "a", "_hoodie_record_key": "a"}]
    assert read_rows(log, one(log), columns=wanted).select(wanted).to_pylist() == expected
    wider = json.loads(one(log).schema)
    wider["fields"].append({"name": "tip", "type": ["null", "double"], "default": None})
    (part,) = read_row_parts(log, one(log), read_schema=wider, columns=["fare", "tip"])
    assert part.to_pylist() == [{"fare": 10.0, "tip": None}]


def test_an_hfile_block_of_which_the_content_is_something_else_is_an_error_with_its_place() -> None:
    header = {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: SCHEMA}
    log = write_block(BlockType.HFILE_DATA, header, b"no HFile")
    with pytest.raises(CorruptFile, match="block at byte 0: not an HFile"):
        read_rows(log, one(log))


@pytest.mark.parametrize("at", range(0, 14377, 97))
def test_a_flipped_byte_in_a_real_hfile_block_gives_an_error_or_two_entries(at: int) -> None:
    log = bytearray(REAL["hfile_files"])
    log[at] ^= 0x55
    try:
        cells = read_cells(bytes(log), one(bytes(log)))
    except PenstockError:
        return
    assert len(cells.keys()) == 2


# what we write


def test_an_avro_block_has_the_bytes_of_the_format() -> None:
    expected = bytes.fromhex(
        "234855444923 0000000000000094 00000001 00000003 00000002 00000000 00000011 3230323530313031303030303030303030"
        f" 00000002 00000041 {SCHEMA.encode().hex()} 0000000000000012 00000003 00000002 00000001 02 00000001 01 00000000 000000000000009a"
    )
    assert avro_block(ONE_AND_MINUS_ONE, instant=LAST_TIME, schema=SCHEMA) == expected


@pytest.mark.parametrize("write", [avro_block, parquet_block])
def test_rows_of_every_type_come_back_from_a_block(write: Any) -> None:
    (log,) = golden_files("mor_parquet_v6_nonpartitioned", ".*.log.*").values()
    table = read_rows(log, one(log))
    ours = write(table, instant=LAST_TIME, schema=one(log).schema)
    assert one(ours).instant == LAST_TIME
    assert read_rows(ours, one(ours)).equals(table)
    assert read_rows(ours, one(ours), columns=["id"]).to_pydict() == {"id": [1]}


@pytest.mark.parametrize("write", [avro_block, parquet_block])
def test_a_block_is_read_with_a_newer_schema(write: Any) -> None:
    old = with_meta_columns(avro_of_arrow(pa.schema({"a": pa.int32(), "gone": pa.string()}), "t"))
    new = with_meta_columns(avro_of_arrow(pa.schema({"more": pa.string(), "a": pa.int64()}), "t"))
    log = write(rows(a=pa.array([1, 2], pa.int32()), gone=["x", "y"]), instant=LAST_TIME, schema=old)
    table = read_rows(log, one(log), read_schema=new, columns=["a", "more"])
    assert table.equals(pa.table({"more": pa.array([None, None], pa.string()), "a": [1, 2]}, schema=table.schema))
    assert table.schema.names == ["more", "a"]
    assert table.schema.field("a").type == pa.int64()
    assert read_rows(log, one(log), read_schema=new).schema.names == [*META_COLUMNS, "more", "a"]


def test_headers_and_footers_of_any_text_come_back_with_keys_of_the_future() -> None:
    footer = {HeaderKey.BLOCK_IDENTIFIER: "ü" * 100_000, HeaderKey.IS_PARTIAL: ""}
    log = write_block(BlockType.DELETE, {HeaderKey.COMPACTED_BLOCK_TIMES: "1,2"}, b"content", footer)
    block = one(log)
    assert block.footer == footer
    assert block.compacted_instants == ("1", "2")
    assert read_content(log, block) == b"content"
    later = log.replace(struct.pack(">ii", 7, 0), struct.pack(">ii", 70, 0))
    assert one(later).footer[70] == ""


BLOCKS = st.one_of(
    st.builds(
        lambda n: avro_block(pa.table({"a": pa.array(range(n), pa.int32())}), instant="1", schema=SCHEMA), st.integers(0, 5)
    ),
    st.builds(
        lambda n: delete_block(
            deletes_of(pa.array(["k"] * n, pa.string()), pa.array([""] * n, pa.string())), instant="2", schema=SCHEMA
        ),
        st.integers(0, 3),
    ),
    st.just(rollback_block(instant="3", target_instant="1")),
    st.builds(
        lambda content: write_block(BlockType.PARQUET_DATA, {HeaderKey.INSTANT_TIME: "4"}, content),
        st.sampled_from([b"", b"#HUDI#", b"x#HUDI#" * 5]),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(BLOCKS, max_size=6))
def test_blocks_behind_one_another_are_found_with_their_places_both_ways(parts: list[bytes]) -> None:
    log = b"".join(parts)
    found = list(scan_blocks(log))
    assert [log[block.offset : block.offset + block.size] for block in found] == parts
    assert list(scan_blocks_backwards(log)) == found[::-1]


def test_an_open_file_is_read_as_bytes_are(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(REAL["avro_trips"] * 3)
    for file in (pa.OSFile(str(path)), pa.memory_map(str(path))):
        with file:
            blocks = list(scan_blocks(file, file_name="the.log"))
            assert [block.file_name for block in blocks] == ["the.log"] * 3
            assert read_rows(file, blocks[2]).num_rows == 1


# damage

AVRO = avro_block(ONE_AND_MINUS_ONE, instant=LAST_TIME, schema=SCHEMA)
DELETE = delete_block(deletes_of(pa.array(["k1"]), pa.array(["p"])), instant=LAST_TIME, schema=SCHEMA)


@pytest.mark.parametrize("cut", range(1, len(AVRO)))
def test_a_log_that_ends_inside_its_last_block_gives_the_blocks_before_it(cut: int) -> None:
    log = DELETE + AVRO[:cut]
    blocks = list(scan_blocks(log))
    assert [block.type for block in blocks] == [BlockType.DELETE, BlockType.CORRUPT]
    assert (blocks[1].offset, blocks[1].size) == (len(DELETE), cut)


@pytest.mark.parametrize("cut", [6, 13, 14, 40, 100, len(AVRO) - 1])
def test_reading_goes_on_behind_a_torn_block(cut: int) -> None:
    log = AVRO[:cut] + AVRO + DELETE
    blocks = list(scan_blocks(log))
    assert [block.type.name for block in blocks] == ["CORRUPT", "AVRO_DATA", "DELETE"]
    assert (blocks[0].offset, blocks[0].size) == (0, cut)
    assert read_rows(log, blocks[1]).to_pydict() == {"a": [1, -1]}


@pytest.mark.parametrize("field", [slice(6, 14), slice(len(AVRO) - 8, len(AVRO))])
@pytest.mark.parametrize("size", [0, 1, len(AVRO), 2**31, 2**45, 2**63 - 1, -1, -(2**63)])
def test_a_block_whose_sizes_do_not_agree_is_corrupt_whatever_they_claim(field: slice, size: int) -> None:
    damaged = bytearray(AVRO)
    damaged[field] = struct.pack(">q", size)
    assert types(bytes(damaged) + DELETE) == ["CORRUPT", "DELETE"]
    assert types(DELETE + bytes(damaged)) == ["DELETE", "CORRUPT"]


def test_a_block_with_a_stranger_behind_it_is_corrupt() -> None:
    assert types(AVRO + b"stranger" + DELETE) == ["CORRUPT", "DELETE"]


def test_a_block_with_less_than_a_magic_behind_it_stands() -> None:
    assert types(AVRO + MAGIC[:5]) == ["AVRO_DATA", "CORRUPT"]


def test_a_magic_that_lies_across_two_windows_of_the_search_is_found() -> None:
    for shift in range(8):
        torn = MAGIC + b"x" * (1024 * 1024 - shift)
        assert types(torn + DELETE) == ["CORRUPT", "DELETE"]


def test_an_empty_log_has_no_blocks() -> None:
    assert list(scan_blocks(b"")) == []
    assert list(scan_blocks_backwards(b"")) == []


def test_a_file_that_is_no_log_is_an_error_with_its_name_and_place() -> None:
    with pytest.raises(CorruptFile, match=r"log file x\.log, byte 0"):
        list(scan_blocks(b"PAR1 and so on", file_name="x.log"))


def test_a_torn_log_cannot_be_read_backwards() -> None:
    with pytest.raises(CorruptFile, match="no whole block ends at byte"):
        list(scan_blocks_backwards(AVRO + AVRO[:50]))


def changed(at: int, number: int, width: str = ">i") -> bytes:
    damaged = bytearray(AVRO)
    struct.pack_into(width, damaged, at, number)
    return DELETE + bytes(damaged)


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (changed(14, 2), Unsupported),  # version
        (changed(14, 0), Unsupported),
        (changed(18, 7), Unsupported),  # type
        (changed(18, 2), Unsupported),
        (changed(18, -1), Unsupported),
        (changed(18, 0), Unsupported),  # a command without its command
        (changed(22, 3), CorruptFile),  # entries of the header
        (changed(22, 1), CorruptFile),
        (changed(22, -1), CorruptFile),
        (changed(22, 2**31 - 1), CorruptFile),
        (changed(30, 18), CorruptFile),  # size of an entry
        (changed(30, 2**31 - 1), CorruptFile),
        (changed(30, -5), CorruptFile),
        (changed(len(AVRO) - 38, 2**40, ">q"), CorruptFile),  # size of the content
        (changed(len(AVRO) - 38, 17, ">q"), CorruptFile),
        (changed(len(AVRO) - 38, -1, ">q"), CorruptFile),
        (changed(len(AVRO) - 12, 1), CorruptFile),  # entries of the footer
        (changed(34, -1), CorruptFile),  # text of an entry
    ],
)
def test_a_whole_block_that_makes_no_sense_is_an_error_with_its_place(log: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"log file the\.log, block at byte {len(DELETE)}\b"):
        list(scan_blocks(log, file_name="the.log"))


@pytest.mark.parametrize("at", range(len(AVRO)))
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_no_flipped_byte_gives_rows_in_another_number_or_another_error(at: int, flip: int) -> None:
    damaged = bytearray(AVRO)
    damaged[at] ^= flip
    log = DELETE + bytes(damaged)
    try:
        blocks = list(scan_blocks(log, file_name="the.log"))
        found = [read_rows(log, block).num_rows for block in blocks if block.is_data]
    except PenstockError as error:
        outcome = str(error)
    else:
        outcome = "the.log" if found in ([], [2]) else f"{found} rows"
    assert "the.log" in outcome


def test_a_block_without_the_header_it_needs_is_an_error_with_its_place() -> None:
    log = write_block(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: "1"}, encode_block(ONE_AND_MINUS_ONE, SCHEMA))
    with pytest.raises(CorruptFile, match="block at byte 0: a AVRO_DATA block without SCHEMA"):
        read_rows(log, one(log))


def test_a_parquet_block_that_holds_something_else_is_an_error_with_its_place() -> None:
    log = write_block(BlockType.PARQUET_DATA, {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: SCHEMA}, b"no parquet at all")
    with pytest.raises(CorruptFile, match="block at byte 0: not the Parquet file"):
        read_rows(log, one(log))


def test_blocks_are_not_read_as_what_they_are_not() -> None:
    with pytest.raises(Unsupported, match="DELETE block holds no rows"):
        read_rows(DELETE, one(DELETE))
    with pytest.raises(Unsupported, match="AVRO_DATA block deletes nothing"):
        read_deletes(AVRO, one(AVRO))
    with pytest.raises(Unsupported, match="AVRO_DATA block is no HFile"):
        read_cells(AVRO, one(AVRO))


def test_deletes_that_java_serialised_are_refused_by_name() -> None:
    content = struct.pack(">ii", 2, 4) + b"kryo"
    log = write_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "1"}, content)
    with pytest.raises(Unsupported, match="only Java can read"):
        read_deletes(log, one(log))


def test_rows_that_do_not_fit_the_schema_are_refused() -> None:
    with pytest.raises(SchemaError, match="'a' holds null"):
        avro_block(pa.table({"b": [1]}), instant="1", schema=SCHEMA)

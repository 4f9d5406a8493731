"""Log files: real ones of Hudi's, and round trips of ours."""

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

from penstock.formats.log import (
    BlockType,
    HeaderKey,
    encode_avro_block,
    encode_block,
    encode_delete_block,
    encode_parquet_block,
    encode_rollback_block,
    read_cells,
    read_content,
    read_deletes,
    read_row_parts,
    read_rows,
    scan_blocks,
    scan_blocks_backwards,
)
from penstock.formats.log.deletes import build_deletes
from penstock.schema import META_COLUMNS, arrow_to_avro, with_meta_columns
from tests.kit.golden import unpack_golden
from tests.kit.readers import hudi_rs_rows, rows_of
from tests.unit.formats.log.logs import LAST_TIME, ONE_AND_MINUS_ONE, REAL, SCHEMA, only_block
from tests.unit.golden import NAMES, golden_files

IN_TABLES = {}
for _name in NAMES:
    for _path, _data in golden_files(_name, ".*.log.*").items():
        IN_TABLES[_name, _path] = _data


def rows(**columns: Any) -> pa.Table:
    meta = {name: ["m"] * len(next(iter(columns.values()))) for name in META_COLUMNS}
    return pa.table({**meta, **columns})


# real files


def test_there_are_real_logs_of_every_type_hudi_writes_into_tables() -> None:
    types = set()
    for log in [*REAL.values(), *IN_TABLES.values()]:
        types |= {block.type for block in scan_blocks(log)}
    assert types == {BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.DELETE, BlockType.COMMAND, BlockType.HFILE_DATA}
    assert len(IN_TABLES) == 3


@pytest.mark.parametrize("log", [*REAL.values(), *IN_TABLES.values()], ids=[*REAL, *(name for name, _ in IN_TABLES)])
def test_a_real_log_is_read_forwards_backwards_and_written_again(log: bytes) -> None:
    block = only_block(log)
    assert list(scan_blocks_backwards(log)) == [block]
    assert block.size == len(log)
    header = {HeaderKey(key): text for key, text in block.header.items()}
    assert encode_block(block.type, header, read_content(log, block)) == log


def test_the_rows_of_an_avro_log_of_hudi_are_encoded_as_the_same_bytes() -> None:
    for name in ("avro_trips", "avro_types"):
        log = REAL[name]
        block = only_block(log)
        assert encode_avro_block(read_rows(log, block), instant=block.instant, schema=block.schema) == log


def test_a_rollback_block_has_the_bytes_of_hudi() -> None:
    block = only_block(REAL["rollback"])
    assert (block.instant, block.target_instant, block.is_rollback) == ("20250126040936578", "20250126040826878", True)
    assert encode_rollback_block(instant="20250126040936578", target_instant="20250126040826878") == REAL["rollback"]


def test_a_delete_block_has_the_bytes_of_hudi() -> None:
    log = REAL["delete"]
    block = only_block(log)
    found = read_deletes(log, block)
    assert found.keys.to_pylist() == [
        "e96c4396-3fad-413a-a942-4cb36106d721",
        "9909a8b1-2d15-4d3d-8ec9-efc48c536a00",
        "334e26e9-8355-45cc-97c6-c31daf0df330",
    ]
    assert set(found.partitions.to_pylist()) == {"city=san_francisco"}
    assert found.ordering(pa.int64()).to_pylist() == [None] * 3
    ours = encode_delete_block(build_deletes(found.keys, found.partitions), instant=block.instant, schema=block.schema)
    assert read_content(ours, only_block(ours)) == read_content(log, block)
    assert only_block(ours).header == block.header


@pytest.mark.parametrize("name", ["avro_trips", "parquet_trips"])
def test_rows_of_hudi_have_the_values_that_were_written(name: str) -> None:
    row = read_rows(REAL[name], only_block(REAL[name])).to_pylist()[0]
    assert row["_hoodie_record_key"] == row["uuid"] == "334e26e9-8355-45cc-97c6-c31daf0df330"
    assert (row["ts"], row["rider"], row["driver"], row["fare"], row["city"]) == (
        1695159649088,
        "rider-A",
        "driver-K",
        29.1,
        "san_francisco",
    )


def test_dates_decimals_and_timestamps_of_hudi_have_the_values_that_fastavro_reads() -> None:
    log = REAL["avro_types"]
    block = only_block(log)
    content = bytes(read_content(log, block))
    expected = fastavro.schemaless_reader(io.BytesIO(content[12:]), fastavro.parse_schema(json.loads(block.schema)))
    assert read_rows(log, block).to_pylist() == [expected]
    assert str(expected["amount"]) == "500.00"


@pytest.mark.parametrize("name", ["mor_parquet_v6_nonpartitioned", "trips_mor_avro_v6_trips_8i1u"])
def test_the_log_of_a_real_table_holds_the_rows_that_queries_return(name: str, tmp_path: Path) -> None:
    pytest.importorskip("hudi", reason="hudi-rs gives the table's answer")
    answer = {row["_hoodie_record_key"]: row for row in rows_of(hudi_rs_rows(unpack_golden(name, tmp_path)), meta=True)}
    (log,) = [data for (table, _), data in IN_TABLES.items() if table == name]
    found = rows_of(read_rows(log, only_block(log)), meta=True)
    assert found == [answer[row["_hoodie_record_key"]] for row in found]


def test_the_keys_and_records_of_a_real_hfile_block_are_found() -> None:
    log = REAL["hfile_files"]
    block = only_block(log)
    cells = read_cells(log, block)
    assert cells.keys() == [b"__all_partitions__", b"city=chennai"]
    parsed = fastavro.parse_schema(json.loads(block.schema))
    data = bytes(cells.data)
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
    assert read_rows(log, only_block(log), columns=wanted).select(wanted).to_pylist() == expected
    wider = json.loads(only_block(log).schema)
    wider["fields"].append({"name": "tip", "type": ["null", "double"], "default": None})
    (part,) = read_row_parts(log, only_block(log), read_schema=wider, columns=["fare", "tip"])
    assert part.to_pylist() == [{"fare": 10.0, "tip": None}]


# what we write


def test_an_avro_block_has_the_bytes_of_the_format() -> None:
    expected = bytes.fromhex(
        "234855444923 0000000000000094 00000001 00000003 00000002 00000000 00000011 3230323530313031303030303030303030"
        f" 00000002 00000041 {SCHEMA.encode().hex()} 0000000000000012 00000003 00000002 00000001 02 00000001 01 00000000 000000000000009a"
    )
    assert encode_avro_block(ONE_AND_MINUS_ONE, instant=LAST_TIME, schema=SCHEMA) == expected


@pytest.mark.parametrize("write", [encode_avro_block, encode_parquet_block])
def test_rows_of_every_type_come_back_from_a_block(write: Any) -> None:
    (log,) = golden_files("mor_parquet_v6_nonpartitioned", ".*.log.*").values()
    table = read_rows(log, only_block(log))
    ours = write(table, instant=LAST_TIME, schema=only_block(log).schema)
    assert only_block(ours).instant == LAST_TIME
    assert read_rows(ours, only_block(ours)).equals(table)
    assert read_rows(ours, only_block(ours), columns=["id"]).to_pydict() == {"id": [1]}


@pytest.mark.parametrize("write", [encode_avro_block, encode_parquet_block])
def test_a_block_is_read_with_a_newer_schema(write: Any) -> None:
    old = with_meta_columns(arrow_to_avro(pa.schema({"a": pa.int32(), "gone": pa.string()}), "t"))
    new = with_meta_columns(arrow_to_avro(pa.schema({"more": pa.string(), "a": pa.int64()}), "t"))
    log = write(rows(a=pa.array([1, 2], pa.int32()), gone=["x", "y"]), instant=LAST_TIME, schema=old)
    table = read_rows(log, only_block(log), read_schema=new, columns=["a", "more"])
    assert table.equals(pa.table({"more": pa.array([None, None], pa.string()), "a": [1, 2]}, schema=table.schema))
    assert table.schema.names == ["more", "a"]
    assert table.schema.field("a").type == pa.int64()
    assert read_rows(log, only_block(log), read_schema=new).schema.names == [*META_COLUMNS, "more", "a"]


def test_headers_and_footers_of_any_text_are_read_back_with_unknown_keys() -> None:
    footer = {HeaderKey.BLOCK_IDENTIFIER: "ü" * 100_000, HeaderKey.IS_PARTIAL: ""}
    log = encode_block(BlockType.DELETE, {HeaderKey.COMPACTED_BLOCK_TIMES: "1,2"}, b"content", footer)
    block = only_block(log)
    assert block.footer == footer
    assert block.compacted_instants == ("1", "2")
    assert read_content(log, block) == b"content"
    later = log.replace(struct.pack(">ii", 7, 0), struct.pack(">ii", 70, 0))
    assert only_block(later).footer[70] == ""


BLOCKS = st.one_of(
    st.builds(
        lambda n: encode_avro_block(pa.table({"a": pa.array(range(n), pa.int32())}), instant="1", schema=SCHEMA),
        st.integers(0, 5),
    ),
    st.builds(
        lambda n: encode_delete_block(
            build_deletes(pa.array(["k"] * n, pa.string()), pa.array([""] * n, pa.string())), instant="2", schema=SCHEMA
        ),
        st.integers(0, 3),
    ),
    st.just(encode_rollback_block(instant="3", target_instant="1")),
    st.builds(
        lambda content: encode_block(BlockType.PARQUET_DATA, {HeaderKey.INSTANT_TIME: "4"}, content),
        st.sampled_from([b"", b"#HUDI#", b"x#HUDI#" * 5]),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(BLOCKS, max_size=6))
def test_all_blocks_of_a_log_are_found_with_their_offsets_forwards_and_backwards(parts: list[bytes]) -> None:
    log = b"".join(parts)
    found = list(scan_blocks(log))
    assert [log[block.offset : block.offset + block.size] for block in found] == parts
    assert list(scan_blocks_backwards(log)) == found[::-1]


def test_an_open_file_is_read_like_bytes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(REAL["avro_trips"] * 3)
    for file in (pa.OSFile(str(path)), pa.memory_map(str(path))):
        with file:
            blocks = list(scan_blocks(file, file_name="the.log"))
            assert [block.file_name for block in blocks] == ["the.log"] * 3
            assert read_rows(file, blocks[2]).num_rows == 1

"""Log files that are damaged: torn, cut, with sizes that lie, or with something else in them."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from penstock.errors import CorruptFile, PenstockError, SchemaError, Unsupported
from penstock.formats.avro.block import encode_avro_content
from penstock.formats.log import (
    MAGIC,
    BlockType,
    HeaderKey,
    encode_avro_block,
    encode_block,
    encode_delete_block,
    read_cells,
    read_deletes,
    read_rows,
    scan_blocks,
    scan_blocks_backwards,
)
from penstock.formats.log.deletes import build_deletes
from tests.unit.formats.log.logs import LAST_TIME, ONE_AND_MINUS_ONE, REAL, SCHEMA, only_block

AVRO = encode_avro_block(ONE_AND_MINUS_ONE, instant=LAST_TIME, schema=SCHEMA)
DELETE = encode_delete_block(build_deletes(pa.array(["k1"]), pa.array(["p"])), instant=LAST_TIME, schema=SCHEMA)


def types(log: bytes) -> list[str]:
    return [block.type.name for block in scan_blocks(log)]


@pytest.mark.parametrize("cut", range(1, len(AVRO)))
def test_the_blocks_before_a_torn_last_block_are_found(cut: int) -> None:
    log = DELETE + AVRO[:cut]
    blocks = list(scan_blocks(log))
    assert [block.type for block in blocks] == [BlockType.DELETE, BlockType.CORRUPT]
    assert (blocks[1].offset, blocks[1].size) == (len(DELETE), cut)


@pytest.mark.parametrize("cut", [6, 13, 14, 40, 100, len(AVRO) - 1])
def test_the_scan_continues_after_a_torn_block(cut: int) -> None:
    log = AVRO[:cut] + AVRO + DELETE
    blocks = list(scan_blocks(log))
    assert [block.type.name for block in blocks] == ["CORRUPT", "AVRO_DATA", "DELETE"]
    assert (blocks[0].offset, blocks[0].size) == (0, cut)
    assert read_rows(log, blocks[1]).to_pydict() == {"a": [1, -1]}


@pytest.mark.parametrize("field", [slice(6, 14), slice(len(AVRO) - 8, len(AVRO))])
@pytest.mark.parametrize("size", [0, 1, len(AVRO), 2**31, 2**45, 2**63 - 1, -1, -(2**63)])
def test_a_block_whose_two_sizes_differ_is_corrupt(field: slice, size: int) -> None:
    damaged = bytearray(AVRO)
    damaged[field] = struct.pack(">q", size)
    assert types(bytes(damaged) + DELETE) == ["CORRUPT", "DELETE"]
    assert types(DELETE + bytes(damaged)) == ["DELETE", "CORRUPT"]


def test_a_block_that_no_magic_follows_is_corrupt() -> None:
    assert types(AVRO + b"stranger" + DELETE) == ["CORRUPT", "DELETE"]


def test_a_block_before_fewer_bytes_than_a_magic_is_whole() -> None:
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
def test_a_whole_block_that_is_malformed_is_an_error_with_its_place(log: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"log file the\.log, block at byte {len(DELETE)}\b"):
        list(scan_blocks(log, file_name="the.log"))


@pytest.mark.parametrize("at", range(len(AVRO)))
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_raises_an_error_of_penstock_or_keeps_the_number_of_rows(at: int, flip: int) -> None:
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
    log = encode_block(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: "1"}, encode_avro_content(ONE_AND_MINUS_ONE, SCHEMA))
    with pytest.raises(CorruptFile, match="block at byte 0: a AVRO_DATA block without SCHEMA"):
        read_rows(log, only_block(log))


def test_an_hfile_block_with_another_content_is_an_error_with_its_place() -> None:
    header = {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: SCHEMA}
    log = encode_block(BlockType.HFILE_DATA, header, b"no HFile")
    with pytest.raises(CorruptFile, match="block at byte 0: not an HFile"):
        read_rows(log, only_block(log))


@pytest.mark.parametrize("at", range(0, 14377, 97))
def test_a_flipped_byte_in_a_real_hfile_block_raises_an_error_or_returns_both_entries(at: int) -> None:
    log = bytearray(REAL["hfile_files"])
    log[at] ^= 0x55
    try:
        cells = read_cells(bytes(log), only_block(bytes(log)))
    except PenstockError:
        return
    assert len(cells.keys()) == 2


def test_a_parquet_block_with_another_content_is_an_error_with_its_place() -> None:
    log = encode_block(BlockType.PARQUET_DATA, {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: SCHEMA}, b"no parquet at all")
    with pytest.raises(CorruptFile, match="block at byte 0: not the Parquet file"):
        read_rows(log, only_block(log))


def test_a_block_is_not_read_as_another_type() -> None:
    with pytest.raises(Unsupported, match="DELETE block holds no rows"):
        read_rows(DELETE, only_block(DELETE))
    with pytest.raises(Unsupported, match="AVRO_DATA block deletes nothing"):
        read_deletes(AVRO, only_block(AVRO))
    with pytest.raises(Unsupported, match="AVRO_DATA block is no HFile"):
        read_cells(AVRO, only_block(AVRO))


def test_deletes_that_java_serialised_are_refused_by_name() -> None:
    content = struct.pack(">ii", 2, 4) + b"kryo"
    log = encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "1"}, content)
    with pytest.raises(Unsupported, match="only Java can read"):
        read_deletes(log, only_block(log))


def test_rows_that_do_not_fit_the_schema_are_refused() -> None:
    with pytest.raises(SchemaError, match="'a' holds null"):
        encode_avro_block(pa.table({"b": [1]}), instant="1", schema=SCHEMA)

"""Large blocks are read a part at a time: the same rows and the same errors as those of small ones, in little memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import CorruptFile, PenstockError
from penstock.formats.log import BlockType, encode_avro_block, encode_parquet_block, read_row_parts, read_rows, scan_blocks
from penstock.formats.log.large_block import Content, read_avro_parts
from penstock.schema import META_COLUMNS, arrow_to_avro, avro_text, with_meta_columns
from tests.unit.golden import golden_files

COLUMNS = pa.schema([("n", pa.int64()), ("text", pa.string()), ("more", pa.list_(pa.int32()))])
AVRO = with_meta_columns(arrow_to_avro(COLUMNS, "t"))
WRITERS = pytest.mark.parametrize("write", [encode_avro_block, encode_parquet_block])


def rows(count: int, size: int = 20) -> pa.Table:
    meta = {name: ["m"] * count for name in META_COLUMNS}
    texts = [f"{n:09}" * (size // 9) for n in range(count)]
    return pa.table(
        {**meta, "n": range(count), "text": texts, "more": pa.array([[n] * (n % 3) for n in range(count)], pa.list_(pa.int32()))}
    )


def parts_of(log: Any, part_bytes: int, columns: list[str] | None = None) -> list[pa.Table]:
    (block,) = scan_blocks(log, file_name="the.log")
    return list(read_row_parts(log, block, read_schema=AVRO, columns=columns, part_bytes=part_bytes))


@WRITERS
@pytest.mark.parametrize("part_bytes", [1, 100, 2_000, 20_000])
def test_the_parts_of_a_block_hold_its_rows_in_their_order(write: Any, part_bytes: int) -> None:
    log = write(rows(1_000), instant="1", schema=AVRO)
    (block,) = scan_blocks(log)
    found = parts_of(log, part_bytes)
    assert pa.concat_tables(found).equals(read_rows(log, block, read_schema=AVRO))
    assert len(found) > 1
    assert parts_of(log, part_bytes, ["text"])[0].column_names == ["text"]


@WRITERS
def test_values_of_every_type_come_back(write: Any) -> None:
    (real,) = golden_files("mor_parquet_v6_nonpartitioned", ".*.log.*").values()
    (block,) = scan_blocks(real)
    table = pa.concat_tables([read_rows(real, block)] * 3)
    log = write(table, instant="1", schema=block.schema)
    (ours,) = scan_blocks(log)
    assert pa.concat_tables(read_row_parts(log, ours, read_schema=block.schema, part_bytes=1)).equals(table)


def test_a_record_larger_than_a_part_is_a_part_of_its_own() -> None:
    log = encode_avro_block(rows(5, size=3_000), instant="1", schema=AVRO)
    assert [part.num_rows for part in parts_of(log, 1_000)] == [1] * 5


@WRITERS
def test_a_block_without_rows_has_no_parts(write: Any) -> None:
    assert sum(part.num_rows for part in parts_of(write(rows(0), instant="1", schema=AVRO), 1)) == 0


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    yield pool
    pa.set_memory_pool(before)


@WRITERS
def test_memory_is_bounded_by_a_few_parts(write: Any, tmp_path: Path, pool: pa.MemoryPool) -> None:
    """Ten megabytes in one block, read from a file, a quarter of a megabyte at a time."""
    path = tmp_path / "log"
    part_bytes = 256 * 1024
    path.write_bytes(write(rows(10_000, size=1_000), instant="1", schema=AVRO))
    before = pool.max_memory()
    with pa.OSFile(str(path)) as log:
        (block,) = scan_blocks(log)
        parts = read_row_parts(log, block, read_schema=AVRO, columns=["text"], part_bytes=part_bytes)
        sizes = [part.nbytes for part in parts]
    assert sum(sizes) > 9_000_000
    assert max(sizes) < 2 * part_bytes
    assert pool.max_memory() < before + 12 * part_bytes


# damage


def test_a_flipped_byte_raises_an_error_with_its_place_or_keeps_the_number_of_rows() -> None:
    good = encode_avro_block(rows(60), instant="1", schema=AVRO)
    (block,) = scan_blocks(good)
    for at in range(block.content_offset, block.content_offset + block.content_size, 7):
        log = bytearray(good)
        log[at] ^= 0x81
        try:
            outcome = f"{sum(part.num_rows for part in parts_of(bytes(log), 500))} rows"
        except PenstockError as error:
            outcome = str(error)
        assert outcome == "60 rows" or "the.log, block at byte 0" in outcome, at


def avro(*lengths: int, count: int, tail: bytes = b"") -> Content:
    """Return a content with records of ints, which claims to have this many records with these lengths."""
    content = struct.pack(">ii", 3, count) + b"".join(struct.pack(">i", length) + b"\2" for length in lengths) + tail
    return Content(pa.BufferReader(content), 0, len(content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (avro(1, 1, count=9), "claims 9 records"),
        (avro(1, 1, count=-1), "claims -1 records"),
        (avro(1, 1, count=1), "do not add up"),
        (avro(1, 1, count=2, tail=b"more"), "do not add up"),
        (avro(1, 2**31 - 1, count=2), "record 1 of 2 .* does not fit"),
        (avro(-5, 1, count=2), "record 0 of 2 .* does not fit"),
        (avro(1, 1, count=3, tail=b"\0\0"), "claims 3 records|record 2 of 3 .* does not fit"),
    ],
)
def test_impossible_lengths_are_an_error_before_anything_is_allocated(content: Content, message: str) -> None:
    schema = avro_text({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]})
    with pytest.raises(CorruptFile, match=message):
        list(read_avro_parts(content, schema, ["a"], 6))


def test_a_file_that_was_truncated_since_its_scan_is_an_error() -> None:
    log = encode_avro_block(rows(100), instant="1", schema=AVRO)
    (block,) = scan_blocks(log)
    with pytest.raises(CorruptFile, match="block at byte 0: the file ends inside its content"):
        list(read_row_parts(log[:-1_000], block, read_schema=AVRO, part_bytes=1_000))


def test_a_large_parquet_block_with_another_content_is_an_error_with_its_place() -> None:
    log = encode_parquet_block(rows(100), instant="1", schema=AVRO)
    (block,) = scan_blocks(log)
    assert block.type is BlockType.PARQUET_DATA
    damaged = log[: block.content_offset] + b"x" * block.content_size + log[block.content_offset + block.content_size :]
    with pytest.raises(CorruptFile, match="block at byte 0: not the Parquet file"):
        parts_of(damaged, 1)

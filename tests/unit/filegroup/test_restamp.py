"""Copies of data files have another instant in the rows that the write changed, and everything else as it was."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import CorruptFile
from penstock.filegroup.fill_meta_columns import add_file_columns, stamp_rows
from penstock.filegroup.restamp import Instants, restamp_base_file, restamp_log
from penstock.formats.log import encode_avro_block, encode_delete_block, encode_parquet_block, read_rows, scan_blocks
from penstock.formats.log.deletes import build_deletes
from penstock.formats.parquet import open_writer
from penstock.schema import META_COLUMNS

OLD, NEW, EARLIER = "20260101000000100", "20260101000000120", "20260101000000050"
INSTANTS = Instants(OLD, NEW)
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "trips",
        "fields": [
            *({"name": name, "type": ["null", "string"], "default": None} for name in META_COLUMNS),
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "fare", "type": "double"},
        ],
    }
)


def rows(instant: str, first: int, count: int, file_name: str = "old.parquet") -> pa.Table:
    """Return rows with meta columns; the notes hold the instant too, and must keep it."""
    numbers = np.arange(first, first + count)
    body = pa.table({"note": [f"{OLD}_" if number % 2 else None for number in numbers], "fare": numbers * 0.5})
    keys = pa.chunked_array([[f"key {number}" for number in numbers]])
    return add_file_columns(stamp_rows(body, keys, instant=instant, task=3, numbers=numbers), "berlin", file_name)


def plain(table: pa.Table) -> list[dict[str, object]]:
    """Return rows as dicts."""
    return table.to_pylist()


@pytest.mark.parametrize("parts", [((OLD, 500),), ((EARLIER, 300), (OLD, 200)), ((EARLIER, 500),)])
def test_rows_of_the_write_get_the_new_instant_and_other_rows_keep_theirs(parts: tuple[tuple[str, int], ...]) -> None:
    stored, expected = [], []
    for number, (instant, count) in enumerate(parts):
        stored.append(rows(instant, number * 1000, count))
        expected.append(rows(INSTANTS.replace(instant), number * 1000, count, "new.parquet"))
    sink = pa.BufferOutputStream()
    with open_writer(sink, stored[0], "gzip") as writer:
        for table in stored:
            writer.write_table(table)
    copied = pa.BufferOutputStream()
    size = restamp_base_file(pa.BufferReader(sink.getvalue()), copied, INSTANTS, "gzip", "new.parquet")
    data = copied.getvalue()
    assert size == len(data)
    assert plain(pq.read_table(pa.BufferReader(data))) == plain(
        pa.concat_tables(table.unify_dictionaries() for table in expected)
    )


@pytest.mark.parametrize("encode", [encode_avro_block, encode_parquet_block])
@pytest.mark.parametrize("count", [1, 400])
def test_the_blocks_of_a_log_get_the_new_instant(encode: object, count: int) -> None:
    def log(instant: str) -> bytes:
        positions = np.arange(count)
        deletes = build_deletes(pa.array(["key 7"]), pa.array(["berlin"]))
        return b"".join(
            [
                encode(rows(instant, 5, count, "file-id"), instant=instant, schema=SCHEMA, positions=positions),  # type: ignore[operator]
                encode(rows(instant, 5000, count, "file-id"), instant=instant, schema=SCHEMA),  # type: ignore[operator]
                encode_delete_block(deletes, instant=instant, schema=SCHEMA),
            ]
        )

    sink = pa.BufferOutputStream()
    size = restamp_log(pa.BufferReader(log(OLD)), sink, INSTANTS, "gzip")
    copied, expected = sink.getvalue().to_pybytes(), log(NEW)
    assert size == len(copied)
    if encode is encode_avro_block:
        assert copied == expected
    blocks = [(block.type, block.instant, block.header, block.footer) for block in scan_blocks(copied)]
    assert blocks == [(block.type, block.instant, block.header, block.footer) for block in scan_blocks(expected)]
    for ours, theirs in zip(list(scan_blocks(copied))[:2], list(scan_blocks(expected))[:2], strict=True):
        assert plain(read_rows(copied, ours)) == plain(read_rows(expected, theirs))


def test_a_log_of_another_write_is_refused() -> None:
    log = encode_avro_block(rows(EARLIER, 0, 3), instant=EARLIER, schema=SCHEMA)
    with pytest.raises(CorruptFile, match=f"not a block of {OLD}"):
        restamp_log(pa.BufferReader(log), pa.BufferOutputStream(), INSTANTS, "gzip")


@pytest.mark.parametrize("count", [1, 200])
def test_a_record_of_another_write_is_refused(count: int) -> None:
    log = encode_avro_block(rows(EARLIER, 0, count), instant=OLD, schema=SCHEMA)
    with pytest.raises(CorruptFile, match=f"a record that is not of {OLD}"):
        restamp_log(pa.BufferReader(log), pa.BufferOutputStream(), INSTANTS, "gzip")

"""Copies of Parquet files have other values in some columns, and all other columns as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import CorruptFile
from penstock.formats.parquet import open_writer
from penstock.formats.parquet_columns import copy_with_columns

ROWS = 1000
TABLE = pa.table(
    {
        "first": ["old"] * ROWS,
        "kept": np.arange(ROWS),
        "nested": [[{"text": str(number)}] if number % 3 else None for number in range(ROWS)],
        "second": [f"old-{number}" for number in range(ROWS)],
        "last": np.random.default_rng(1).random(ROWS),
    }
)


def encode(rows: pa.Table, codec: str, row_group_rows: int, **options: Any) -> pa.Buffer:
    """Return rows as a Parquet file, as base files are written; with options, as other writers may."""
    sink = pa.BufferOutputStream()
    if options:
        pq.write_table(rows, sink, compression=codec, row_group_size=row_group_rows, **options)
    else:
        with open_writer(sink, rows, codec) as writer:
            writer.write_table(rows, row_group_size=row_group_rows)
            writer.add_key_value_metadata({"hoodie": "footer"})
    return sink.getvalue()


def copy(data: pa.Buffer, codec: str, names: tuple[str, ...] = ("first", "second")) -> tuple[pa.Buffer, int]:
    """Return a copy with `new` for `old` in some columns, and its size as the function returns it."""
    file = pq.ParquetFile(pa.BufferReader(data))

    def make_columns(row_group: int) -> pa.Table:
        rows = file.read_row_group(row_group, columns=list(names))
        new = {name: pa.compute.replace_substring(rows[name], "old", "the new") for name in names}
        return pa.table(new)

    sink = pa.BufferOutputStream()
    size = copy_with_columns(pa.BufferReader(data), sink, make_columns, codec)
    return sink.getvalue(), size


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "none"])
@pytest.mark.parametrize("row_group_rows", [ROWS, 300])
def test_a_copy_has_the_new_values_and_all_others(codec: str, row_group_rows: int) -> None:
    data = encode(TABLE, codec, row_group_rows)
    copied, size = copy(data, codec)
    file = pq.ParquetFile(pa.BufferReader(copied))
    rows = file.read()
    assert rows["first"].to_pylist() == ["the new"] * ROWS
    assert rows["second"].to_pylist() == [f"the new-{number}" for number in range(ROWS)]
    assert rows.select(["kept", "nested", "last"]).equals(TABLE.select(["kept", "nested", "last"]))
    assert size == len(copied)
    assert file.metadata.metadata[b"hoodie"] == b"footer"
    assert file.metadata.num_row_groups == -(-ROWS // row_group_rows)


def test_other_columns_are_copied_byte_for_byte() -> None:
    data = encode(TABLE, "gzip", ROWS)
    copied, _ = copy(data, "gzip")
    chunks = []
    for buffer in (data, copied):
        column = pq.ParquetFile(pa.BufferReader(buffer)).metadata.row_group(0).column(4)
        assert column.path_in_schema == "last"
        start = column.dictionary_page_offset or column.data_page_offset
        chunks.append(buffer.to_pybytes()[start : start + column.total_compressed_size])
    assert chunks[0] == chunks[1]


def test_statistics_of_new_columns_are_those_of_the_new_values() -> None:
    copied, _ = copy(encode(TABLE, "gzip", 300), "gzip")
    metadata = pq.ParquetFile(pa.BufferReader(copied)).metadata
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(0).statistics
        assert (statistics.min, statistics.max) == ("the new", "the new")
    assert pq.read_table(pa.BufferReader(copied), filters=[("second", "=", "the new-999")])["kept"].to_pylist() == [999]


def test_a_file_of_another_writer_with_page_indexes_and_pages_of_version_2_is_copied() -> None:
    data = encode(TABLE, "snappy", 400, write_page_index=True, data_page_version="2.0", use_dictionary=False)
    copied, _ = copy(data, "gzip")
    rows = pq.read_table(pa.BufferReader(copied))
    assert rows["second"].to_pylist() == [f"the new-{number}" for number in range(ROWS)]
    assert rows.select(["kept", "nested", "last"]).equals(TABLE.select(["kept", "nested", "last"]))
    assert not pq.ParquetFile(pa.BufferReader(copied)).metadata.row_group(0).column(1).has_offset_index


def test_a_file_without_rows_is_copied() -> None:
    data = encode(TABLE.slice(0, 0), "gzip", ROWS)
    copied, _ = copy(data, "gzip")
    assert pq.read_table(pa.BufferReader(copied)).schema.equals(pq.read_table(pa.BufferReader(data)).schema)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(20) + b"PAR1", encode(TABLE, "gzip", ROWS).to_pybytes()[:-1]])
def test_a_file_that_is_no_parquet_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        copy_with_columns(pa.BufferReader(data), pa.BufferOutputStream(), lambda _: TABLE, "gzip")

"""Which columns of a file get a dictionary."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.formats.dictionaries import estimate_distinct, repetitive_columns
from penstock.formats.parquet import open_writer

ROWS = 100_000


def texts(values: int, rows: int = ROWS) -> pa.Array:
    numbers = np.random.default_rng(5).integers(0, values, rows)
    return pa.array([f"driver-{number:06d}" for number in numbers])


@pytest.mark.parametrize(
    ("values", "expected"),
    [(1, True), (500, True), (40_000, True), (100_000, False), (10**9, False)],
    ids=["one", "few", "two in five", "two in three", "hardly any twice"],
)
def test_strings_that_repeat_in_a_row_group_get_a_dictionary_even_if_few_repeat_in_the_sample(
    values: int, expected: bool
) -> None:
    assert repetitive_columns(pa.table({"driver": texts(values)})) == (["driver"] if expected else [])


def test_numbers_need_more_repetition_than_texts() -> None:
    numbers = np.random.default_rng(5).integers(0, 40_000, ROWS)
    assert repetitive_columns(pa.table({"n": numbers, "city": numbers % 7})) == ["city"]


def test_nulls_do_not_count_as_repetition() -> None:
    rows = np.arange(ROWS)
    sparse = {
        "note": pa.array([f"note-{i}" for i in rows]),
        "n": pa.array(rows),
        "city": pa.array([f"city-{i % 7}" for i in rows]),
    }
    table = pa.table({name: pc.if_else(pa.array(rows % 5 == 0), values, None) for name, values in sparse.items()})
    assert repetitive_columns(table) == ["city"]


@pytest.mark.parametrize("values", [10, 1_000, 20_000, 300_000])
def test_the_estimate_is_near_the_true_number(values: int) -> None:
    numbers = np.random.default_rng(11).integers(0, values, ROWS)
    in_sample = len(np.unique(numbers[:4_096]))
    in_all = len(np.unique(numbers))
    assert estimate_distinct(ROWS, in_sample, 4_096) == pytest.approx(in_all, rel=0.2)


def test_without_repetition_in_the_sample_all_rows_are_distinct() -> None:
    assert estimate_distinct(1_000, 10, 10) == 1_000


def test_nested_columns_are_named_as_in_parquet() -> None:
    rows = 5_000
    few = pa.array([f"tag-{i % 9}" for i in range(2 * rows)])
    many = pa.array([f"id-{i}" for i in range(2 * rows)])
    offsets = pa.array(np.arange(0, 2 * rows + 1, 2), pa.int32())
    table = pa.table(
        {
            "tags": pa.ListArray.from_arrays(offsets, few),
            "ids": pa.ListArray.from_arrays(offsets, many),
            "fees": pa.MapArray.from_arrays(offsets, few, many),
            "place": pa.StructArray.from_arrays([few[:rows], many[:rows]], ["city", "street"]),
            "flag": pa.array([True] * rows),
            "nothing": pa.nulls(rows),
        }
    )
    found = repetitive_columns(table)
    assert found == ["tags.list.element", "fees.key_value.key", "place.city"]
    sink = io.BytesIO()
    writer = open_writer(pa.PythonFile(sink, "w"), table.drop_columns("nothing"), "snappy")
    writer.write_table(table.drop_columns("nothing"))
    writer.close()
    group = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert [c.path_in_schema for c in columns if c.has_dictionary_page] == found


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_tables_of_few_rows_work(rows: int) -> None:
    table = pa.table({"a": pa.array(["x"] * rows), "b": pa.array([[1]] * rows, pa.list_(pa.int64()))})
    assert repetitive_columns(table) == (["a", "b.list.element"] if rows else [])

"""Reading base files ahead of the work on them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.errors import CorruptFile
from penstock.filegroup.base_read import read_ahead


def tables(count: int, read: list[int]) -> Iterator[pa.Table]:
    for i in range(count):
        read.append(i)
        yield pa.table({"i": [i]})


@pytest.mark.parametrize("count", [0, 1, 3])
def test_tables_come_in_their_order(count: int) -> None:
    assert [t["i"][0].as_py() for t in read_ahead(tables(count, []))] == list(range(count))


def test_only_the_next_table_is_read_while_one_is_worked_on() -> None:
    began = threading.Event()

    def two() -> Iterator[pa.Table]:
        yield pa.table({"i": [0]})
        began.set()
        yield pa.table({"i": [1]})

    rows = read_ahead(two())
    next(rows)
    assert began.wait(10)
    read: list[int] = []
    rows = read_ahead(tables(5, read))
    next(rows)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert read == [0, 1, 2]


def test_an_error_is_raised_at_the_place_of_its_table() -> None:
    def bad() -> Iterator[pa.Table]:
        yield pa.table({"i": [0]})
        raise CorruptFile("row group 1 is damaged")

    rows = read_ahead(bad())
    assert next(rows).num_rows == 1
    with pytest.raises(CorruptFile, match="row group 1"):
        next(rows)

"""Sources that are read on threads: their order, the memory of what waits, errors, and an early end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

from penstock.read.ordered_reads import read_in_order


def table_of(number: int, rows: int = 10) -> pa.Table:
    return pa.table({"n": pa.array([number] * rows, pa.int64())})


def tables(number: int, count: int) -> Iterator[pa.Table]:
    for _ in range(count):
        yield table_of(number)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("limit", [0, 100, 1 << 30])
def test_tables_come_in_the_order_of_their_sources(threads: int, limit: int) -> None:
    counts = [3, 0, 1, 5, 2]
    sources = [partial(tables, number, count) for number, count in enumerate(counts)]
    found = [table["n"][0].as_py() for table in read_in_order(sources, threads, limit)]
    assert found == [0] * 3 + [2] + [3] * 5 + [4] * 2


def test_threads_read_ahead_no_further_than_the_limit() -> None:
    made: list[int] = []
    seen = threading.Event()

    def first() -> Iterator[pa.Table]:
        seen.wait(30)  # until the caller has looked
        yield table_of(0)

    def second() -> Iterator[pa.Table]:
        for number in range(1000):
            made.append(number)
            yield table_of(1)

    rows = read_in_order([first, second], 2, 5 * table_of(1).nbytes)
    reader = threading.Thread(target=lambda: made.append(-next(rows).num_rows))
    reader.start()
    while len(made) < 6:
        seen.wait(0.01)
    seen.wait(0.2)
    assert len(made) <= 7  # five wait, one is being added, one more may be made
    seen.set()
    reader.join()
    assert sum(table.num_rows for table in rows) == 10_000


def test_an_error_comes_in_the_place_of_its_source() -> None:
    def broken() -> Iterator[pa.Table]:
        yield table_of(1)
        raise ValueError("damaged")

    rows = read_in_order([partial(tables, 0, 2), broken, partial(tables, 2, 1)], 3, 1 << 20)
    assert [next(rows)["n"][0].as_py() for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ValueError, match="damaged"):
        next(rows)


def test_the_threads_end_when_the_caller_stops_early() -> None:
    before = threading.active_count()
    rows = read_in_order([partial(tables, number, 10_000) for number in range(4)], 4, 100)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before

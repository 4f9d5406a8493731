"""A task's share of the incoming rows: staged pieces, the positions of the rows that count, and their keys.

Rows stay where they are (mapped files) and are gathered a row group at a time. A share larger than the memory it may
take is copied to a local spill file first and mapped from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import clock
from penstock.merge.pair import Positions, check_ordering, newest_of_each
from penstock.storage import LocalStorage, join
from penstock.write.layout import KEY
from penstock.write.stage import Piece, Staging, read_pieces


@dataclass(frozen=True)
class ShareSettings:
    """How a share is brought together."""

    staging: Staging
    #: The column that decides which of several rows of a key counts; None: the last one.
    ordering: str | None
    memory_bytes: int
    spill_folder: str


class Share:
    """Incoming rows, numbered in arrival order. `rows` are those that count, one per key, and `keys` their keys."""

    def __init__(self, tables: Sequence[pa.Table], rows: Positions, keys: pa.Array) -> None:
        self._tables = list(tables)
        self._starts = np.cumsum([0, *(t.num_rows for t in tables)])
        self.rows = rows
        self.keys = keys

    @property
    def total(self) -> int:
        """All rows, whether they count or not."""
        return int(self._starts[-1])

    def take(self, numbers: Positions) -> pa.Table:
        """Rows by their number, in that order: the data columns and, last, the record key (`KEY`)."""
        order = np.argsort(numbers, kind="stable")
        ascending = numbers[order]
        bounds = np.searchsorted(ascending, self._starts)
        parts = [
            table.take(pa.array(ascending[bounds[i] : bounds[i + 1]] - self._starts[i]))
            for i, table in enumerate(self._tables)
            if bounds[i + 1] > bounds[i]
        ]
        found = pa.concat_tables(parts) if parts else self._tables[0].slice(0, 0)
        if not np.array_equal(order, np.arange(len(order))):
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            found = found.take(pa.array(back))
        return found


def load_share(settings: ShareSettings, pieces: Sequence[Piece]) -> Share:
    """Bring a task's rows together and reduce them to one per key."""
    tables = _tables(settings, pieces)
    keys = _column(tables, KEY)
    ordering = None
    if settings.ordering is not None:
        ordering = ordering_values(tables, settings.ordering)
        check_ordering(ordering, settings.ordering)
    rows = newest_of_each(keys, ordering)
    return Share(tables, rows, keys if len(rows) == len(keys) else keys.take(pa.array(rows)))


def whole_share(settings: ShareSettings, pieces: Sequence[Piece]) -> Share:
    """A task's rows as they are, for a task that knows which of them it wants."""
    tables = _tables(settings, pieces)
    rows = np.arange(sum(t.num_rows for t in tables), dtype=np.int64)
    return Share(tables, rows, pa.array([], pa.string()))


def _tables(settings: ShareSettings, pieces: Sequence[Piece]) -> list[pa.Table]:
    tables = list(read_pieces(settings.staging, pieces))
    if sum(p.size_bytes for p in pieces) > settings.memory_bytes:
        return _spilled(tables, settings.spill_folder)
    return tables


def ordering_values(tables: Sequence[pa.Table], column: str) -> pa.ChunkedArray:
    """The ordering column, which may lie inside a struct (`a.b`)."""
    if column in tables[0].column_names:
        return pa.chunked_array([c for t in tables for c in t[column].chunks])
    top, *rest = column.split(".")
    values = pa.chunked_array([c for t in tables for c in t[top].chunks])
    return pc.struct_field(values, rest)


def _column(tables: Sequence[pa.Table], name: str) -> pa.Array:
    return pa.concat_arrays([c for t in tables for c in t[name].chunks])


def _spilled(tables: Sequence[pa.Table], folder: str) -> list[pa.Table]:
    """The same rows from a local file that is gone when the last reference to it is."""
    storage, path = LocalStorage(), join(folder, f"penstock-{clock.new_uuid()}.arrow")
    with storage.create(path) as sink, pa.ipc.new_file(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    reader = pa.ipc.open_file(storage.map(path))
    found = [pa.Table.from_batches([reader.get_batch(i)]) for i in range(reader.num_record_batches)]
    storage.delete(path)  # the mapping keeps the bytes
    return found

"""A task's share of the incoming rows: staged pieces, the positions of the rows that count, and their keys.

Rows stay where they are (mapped files) and are gathered a row group at a time. A share larger than the memory it may
take is copied to a local spill file, piece by piece, and mapped from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.merge.kernels.by_key import pick_newest
from penstock.merge.kernels.gather import Positions, find_column, find_top_column, take_from_tables, take_rows, to_array
from penstock.merge.kernels.ordering import check_ordering_values
from penstock.storage.spill import spill_tables
from penstock.write.rows.crossing import KEY
from penstock.write.rows.staging import ARRIVAL, Piece, Staging, read_pieces


@dataclass(frozen=True)
class TaskRowsSettings:
    """How a share is brought together."""

    staging: Staging
    #: The column that decides which of several rows of a key counts; None: the last one.
    ordering: str | None
    memory_bytes: int
    spill_folder: str


class TaskRows:
    """Incoming rows, numbered in the order of their pieces. `rows` are those that count, one per key, and `keys` their keys.

    Args:
        numbers: the numbers of the rows that `tables` hold, ascending, where these are not all rows.
    """

    def __init__(self, tables: Sequence[pa.Table], rows: Positions, keys: pa.Array, numbers: Positions | None = None) -> None:
        self._tables = list(tables)
        self._starts = np.cumsum([0, *(t.num_rows for t in tables)])
        self._numbers = numbers
        self.rows = rows
        self.keys = keys

    @property
    def held(self) -> int:
        """All rows, whether they count or not."""
        return int(self._starts[-1])

    @property
    def schema(self) -> pa.Schema:
        """The columns that `take` gives."""
        return self._tables[0].schema

    def take(self, numbers: Positions, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their number, in that order: the data columns and, last, the record key (`KEY`); or some of these alone."""
        tables = self._tables if columns is None else [table.select(columns) for table in self._tables]
        places = numbers if self._numbers is None else np.searchsorted(self._numbers, numbers)
        return take_from_tables(tables, places)


def load_task_rows(settings: TaskRowsSettings, pieces: Sequence[Piece], columns: Sequence[str] | None = None) -> TaskRows:
    """Bring a task's rows together and reduce them to one per key.

    Args:
        columns: the data columns that are needed beside keys and ordering values; None: all.
    """
    tables = _held(_chosen(read_pieces(settings.staging, pieces), settings, columns), settings)
    keys = to_array(pa.chunked_array([c for t in tables for c in t[KEY].chunks]))
    ordering = None
    if settings.ordering is not None:
        ordering = ordering_values(tables, settings.ordering)
        check_ordering_values(ordering, settings.ordering)
    arrival = None
    if ARRIVAL in tables[0].column_names:
        arrival = np.concatenate([np.asarray(t[ARRIVAL]) for t in tables])
        tables = [t.drop_columns([ARRIVAL]) for t in tables]
    rows = pick_newest(keys, ordering, settings.ordering or "", arrival)
    return TaskRows(tables, rows, keys if len(rows) == len(keys) else keys.take(pa.array(rows)))


def choose_task_rows(settings: TaskRowsSettings, pieces: Sequence[Piece], wanted: Positions) -> TaskRows:
    """The share of a task that knows which rows it wants; only those are copied, if any are."""
    total, size = sum(p.rows for p in pieces), sum(p.size_bytes for p in pieces)
    rows, tables = np.unique(wanted), (_plain(t) for t in read_pieces(settings.staging, pieces))
    no_keys = pa.array([], pa.string())
    if size <= settings.memory_bytes:
        return TaskRows(list(tables), np.arange(total, dtype=np.int64), no_keys)
    return TaskRows(_held(_parts(tables, rows), settings), rows, no_keys, rows)


def _parts(tables: Iterable[pa.Table], rows: Positions) -> Iterator[pa.Table]:
    """The wanted rows of each table; the first one even if it has none, for its schema."""
    start = 0
    for i, table in enumerate(tables):
        first, last = np.searchsorted(rows, [start, start + table.num_rows])
        if last > first or i == 0:
            yield take_rows(table, rows[first:last] - start)
        start += table.num_rows


def _chosen(tables: Iterable[pa.Table], settings: TaskRowsSettings, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    for table in tables:
        if columns is None:
            yield table
        else:
            paths = [*columns, *([settings.ordering] if settings.ordering else [])]
            tops = [find_top_column(path, table.column_names) for path in paths]
            yield table.select([n for n in dict.fromkeys([*tops, ARRIVAL, KEY]) if n in table.column_names])


def _plain(table: pa.Table) -> pa.Table:
    return table.drop_columns([ARRIVAL]) if ARRIVAL in table.column_names else table


def ordering_values(tables: Sequence[pa.Table], column: str) -> pa.ChunkedArray:
    """The ordering column, which may lie inside a struct (`a.b`)."""
    found = [find_column(table, column) for table in tables]
    chunks = [chunk for values in found if values is not None for chunk in values.chunks]
    if any(values is None for values in found):
        raise SchemaError(missing_ordering(column, tables[0].column_names))
    return pa.chunked_array(chunks)


def missing_ordering(column: str, columns: Sequence[str]) -> str:
    """What is wrong when rows lack the ordering column, and what helps."""
    names = ", ".join(name for name in columns if name not in (KEY, ARRIVAL))
    return (
        f"{column}(Part -{column}) field not found in record. Acceptable fields were :[{names}]: it decides which of several "
        "rows of a key is newer. Set hoodie.datasource.write.precombine.field to a column of the rows, or "
        "hoodie.combine.before.upsert=false to let the last one win"
    )


def _held(tables: Iterator[pa.Table], settings: TaskRowsSettings) -> list[pa.Table]:
    """The tables, in memory (or mapped) as far as the limit allows; else all of them from a spill file."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size > settings.memory_bytes:
            return spill_tables(chain(_emptied(held), tables), settings.spill_folder)
    return held


def _emptied(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """The tables, each let go of as it is handed on."""
    while tables:
        yield tables.pop(0)

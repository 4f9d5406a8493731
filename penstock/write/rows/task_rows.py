"""`TaskRows`: the incoming rows of one task, as the kernels that merge and write read them.

The rows stay in the staged files, which are mapped into memory; a kernel takes the rows of one row group at a time. If they
need more memory than the options allow, they are copied to a local spill file, piece by piece, and mapped from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.formats.parquet import ROW_GROUP_ROWS
from penstock.merge.kernels.by_key import pick_newest
from penstock.merge.kernels.gather import Positions, find_column, find_top_column, take_from_tables, take_rows, to_array
from penstock.merge.kernels.ordering import check_ordering_values
from penstock.storage.spill import spill_tables
from penstock.write.rows.crossing import KEY
from penstock.write.rows.staging import ARRIVAL, Piece, Staging, read_pieces


@dataclass(frozen=True)
class TaskRowsSettings:
    """How a task loads its incoming rows."""

    staging: Staging
    #: The column that says which of several rows of a key is the newest; None: the one that arrived last.
    ordering: str | None
    memory_bytes: int
    spill_folder: str


class TaskRows:
    """The incoming rows of one task, numbered in the order of their pieces.

    Attributes:
        rows: the numbers of the rows that count: one per key, the newest.
        keys: the record keys of `rows`.

    Args:
        numbers: the numbers of the rows in `tables`, ascending, if `tables` do not hold all rows of the pieces.
    """

    def __init__(self, tables: Sequence[pa.Table], rows: Positions, keys: pa.Array, numbers: Positions | None = None) -> None:
        self._tables = list(tables)
        self._starts = np.cumsum([0, *(table.num_rows for table in tables)])
        self._numbers = numbers
        self.rows = rows
        self.keys = keys

    @property
    def rows_held(self) -> int:
        """How many rows `tables` hold, those that do not count included."""
        return int(self._starts[-1])

    @property
    def schema(self) -> pa.Schema:
        """The columns that `take` returns."""
        return self._tables[0].schema

    def take(self, numbers: Positions, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows by number, in the order of `numbers`: the data columns and, last, the record key (`KEY`).

        Args:
            columns: the columns to return; None: all.
        """
        tables = self._tables if columns is None else [table.select(columns) for table in self._tables]
        positions = numbers if self._numbers is None else np.searchsorted(self._numbers, numbers)
        return take_from_tables(tables, positions)


def load_task_rows(settings: TaskRowsSettings, pieces: Sequence[Piece], columns: Sequence[str] | None = None) -> TaskRows:
    """Load the rows of a task, and pick the newest of each key.

    Args:
        columns: the data columns that are needed besides keys and ordering values; None: all.

    Raises:
        SchemaError: the ordering column is missing, or a row has no ordering value.
    """
    tables = read_pieces(settings.staging, pieces)
    if columns is not None:
        tables = _select_columns(tables, settings, columns)
    held = _hold(tables, settings)
    keys = to_array(_concat_keys(held))
    ordering = None
    if settings.ordering is not None:
        ordering = ordering_values(held, settings.ordering)
        check_ordering_values(ordering, settings.ordering)
    arrival = None
    if ARRIVAL in held[0].column_names:
        arrival = np.concatenate([np.asarray(table[ARRIVAL]) for table in held])
        held = [_drop_arrival(table) for table in held]
    rows = pick_newest(keys, ordering, settings.ordering or "", arrival)
    is_one_per_key = len(rows) == len(keys)
    return TaskRows(held, rows, keys if is_one_per_key else keys.take(pa.array(rows)))


def choose_task_rows(settings: TaskRowsSettings, pieces: Sequence[Piece], numbers: Positions) -> TaskRows:
    """Load rows of a task that knows the numbers of the rows it needs. If rows have to be copied, only these are.

    The keys of the result are empty: the task has looked its keys up already.
    """
    rows_held = sum(piece.rows for piece in pieces)
    size_bytes = sum(piece.size_bytes for piece in pieces)
    tables = (_drop_arrival(table) for table in read_pieces(settings.staging, pieces))
    no_keys = pa.array([], pa.string())
    if size_bytes <= settings.memory_bytes:
        return TaskRows(list(tables), np.arange(rows_held, dtype=np.int64), no_keys)
    chosen = np.unique(numbers)
    return TaskRows(_hold(_take_from_each(tables, chosen), settings), chosen, no_keys, chosen)


def _take_from_each(tables: Iterable[pa.Table], numbers: Positions) -> Iterator[pa.Table]:
    """Yield the rows of each table that have these numbers. The first table is always yielded, because its schema is needed."""
    start = 0
    for number, table in enumerate(tables):
        first, last = np.searchsorted(numbers, [start, start + table.num_rows])
        if last > first or number == 0:
            yield take_rows(table, numbers[first:last] - start)
        start += table.num_rows


def _select_columns(tables: Iterable[pa.Table], settings: TaskRowsSettings, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the tables with the named columns, and those that order rows and hold keys."""
    names = [*columns, settings.ordering] if settings.ordering else list(columns)
    for table in tables:
        top_columns = [find_top_column(name, table.column_names) for name in names]
        wanted = dict.fromkeys([*top_columns, ARRIVAL, KEY])
        yield table.select([name for name in wanted if name in table.column_names])


def _drop_arrival(table: pa.Table) -> pa.Table:
    return table.drop_columns([ARRIVAL]) if ARRIVAL in table.column_names else table


def _concat_keys(tables: Sequence[pa.Table]) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    for table in tables:
        chunks += table[KEY].chunks
    return pa.chunked_array(chunks)


def ordering_values(tables: Sequence[pa.Table], column: str) -> pa.ChunkedArray:
    """Return the ordering column, which may be a field of a struct (`a.b`).

    Raises:
        SchemaError: the rows do not have the column.
    """
    chunks: list[pa.Array] = []
    for table in tables:
        values = find_column(table, column)
        if values is None:
            raise SchemaError(missing_ordering(column, table.column_names))
        chunks += values.chunks
    return pa.chunked_array(chunks)


def missing_ordering(column: str, columns: Sequence[str]) -> str:
    """Return the error message for rows that do not have the ordering column. It begins with Hudi's own sentence."""
    names = ", ".join(name for name in columns if name not in (KEY, ARRIVAL))
    return (
        f"{column}(Part -{column}) field not found in record. Acceptable fields were :[{names}]: it decides which of several "
        "rows of a key is newer. Set hoodie.datasource.write.precombine.field to a column of the rows, or "
        "hoodie.combine.before.upsert=false to let the last one win"
    )


def _hold(tables: Iterator[pa.Table], settings: TaskRowsSettings) -> list[pa.Table]:
    """Return the tables if they fit in the memory of a task. Otherwise copy all of them to a spill file and map it."""
    held: list[pa.Table] = []
    size_bytes = 0
    for table in tables:
        held.append(table)
        size_bytes += table.nbytes
        if size_bytes > settings.memory_bytes:
            return spill_tables(chain(_pop_all(held), tables), settings.spill_folder)
    return held


def _pop_all(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield the tables and drop the reference to each, so that its memory is free as soon as it is spilled."""
    while tables:
        yield tables.pop(0)


def split_row_numbers(numbers: Positions) -> Iterator[Positions]:
    """Yield row numbers in parts of one row group, whose rows a task holds in memory at once."""
    for start in range(0, len(numbers), ROW_GROUP_ROWS):
        yield numbers[start : start + ROW_GROUP_ROWS]

"""`TaskRows`: the incoming rows of one task, read from the staged files. All code that merges or inserts by key uses it.

The staged files are mapped into memory, and the task copies the rows of one row group at a time. If the rows have more bytes than
`hoodie.memory.merge.max.size`, they are copied to a local spill file first, and mapped from there.
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
from penstock.write.rows.crossing_columns import KEY
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import ARRIVAL, Piece, Staging, read_pieces

#: Up to this many bytes, the rows of a task are joined to one table: each chunk of a column makes all later steps slower.
_JOINED_BYTES = 1024 * 1024


@dataclass(frozen=True)
class TaskRowsSettings:
    """How a task loads its incoming rows: how to find the newest row of a key, and when to spill rows to local disk."""

    staging: Staging
    #: The ordering column: of several rows of a key the one with the greatest value is the newest. None: the last to arrive.
    ordering: str | None
    memory_bytes: int
    spill_folder: str


class TaskRows:
    """The incoming rows of one task. The number of a row is its position when all pieces of the task are concatenated.

    A piece is consecutive rows of a staged file.

    Attributes:
        rows: the numbers of the rows to write: the newest row of each key. If `choose_task_rows` made the object: all loaded
            rows.
        keys: the record keys of `rows`. If `choose_task_rows` made the object: empty.

    Args:
        tables: Arrow tables with the loaded rows, in the order of their numbers.
        numbers: the numbers of the loaded rows, ascending; None: all rows of the pieces are loaded.
    """

    def __init__(self, tables: Sequence[pa.Table], rows: Positions, keys: pa.Array, numbers: Positions | None = None) -> None:
        self._tables = list(tables)
        self._starts = np.cumsum([0, *(table.num_rows for table in tables)])
        self._numbers = numbers
        self.rows = rows
        self.keys = keys

    @property
    def rows_held(self) -> int:
        """The number of loaded rows, including rows that are not the newest of their key."""
        return int(self._starts[-1])

    @property
    def schema(self) -> pa.Schema:
        """The schema of the Arrow tables that `take` returns: the columns of the loaded rows."""
        return self._tables[0].schema

    def take(self, numbers: Positions, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the incoming rows with these numbers, in this order.

        Args:
            numbers: row numbers as in the attribute `rows`.
            columns: the columns to return; None: all, the data columns and the record key (`KEY`).
        """
        tables = self._tables if columns is None else [table.select(columns) for table in self._tables]
        positions = numbers if self._numbers is None else np.searchsorted(self._numbers, numbers)
        return take_from_tables(tables, positions)


def load_task_rows(settings: TaskRowsSettings, pieces: Sequence[Piece], columns: Sequence[str] | None = None) -> TaskRows:
    """Load the incoming rows of a task from the staged files, and pick the newest row of each key.

    Args:
        pieces: where the rows are. A piece is consecutive rows of a staged file.
        columns: the data columns to load, besides record keys and ordering values; None: all.

    Raises:
        SchemaError: the ordering column is missing, or an ordering value is null.
    """
    tables = read_pieces(settings.staging, pieces)
    if columns is not None:
        tables = _select_columns(tables, settings, columns)
    if sum(piece.size_bytes for piece in pieces) <= min(_JOINED_BYTES, settings.memory_bytes):
        held = list(tables)
        if len(held) > 1:
            held = [pa.concat_tables(held).combine_chunks()]
    else:
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


def find_repeats(staging: Staging, pieces: Sequence[Piece], numbers: Positions) -> tuple[Positions, Positions]:
    """Find the repeats of some incoming rows: all incoming rows with the same record key and partition path.

    For example, rows 0, 1, 2 have the keys a, b, a. For `numbers` [2, 1] the result is [0, 0, 1] and [0, 2, 1].

    Args:
        pieces: where the incoming rows are. A piece is consecutive rows of a staged file.
        numbers: the numbers of the rows whose repeats are looked for.

    Returns:
        Two arrays with one element per repeat: the position in `numbers` of the row that it repeats, ascending; and its own
            number, ascending among the repeats of a row. Each row of `numbers` is among its repeats.
    """
    keys = to_array(_concat_keys([table.select([KEY]) for table in read_pieces(staging, pieces)])).dictionary_encode()
    partitions = RowPartitions(pieces)
    paths = partitions.path_numbers_of(np.arange(len(keys)))
    # One number for each pair of a key and a path. Rows of one pair come one after another in `order`, in their own order.
    codes = np.asarray(keys.indices, dtype=np.int64) * len(partitions.paths) + paths
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], codes[numbers], "left")
    counts = np.searchsorted(codes[order], codes[numbers], "right") - first
    repeated = np.repeat(np.arange(len(numbers)), counts)
    place = np.arange(len(repeated)) - np.repeat(np.cumsum(counts) - counts, counts)
    return repeated, order[first[repeated] + place]


def choose_task_rows(settings: TaskRowsSettings, pieces: Sequence[Piece], numbers: Positions) -> TaskRows:
    """Load the incoming rows of a task that knows already which rows it needs, because their stored rows were looked up before.

    No newest row of a key is picked, and `keys` of the result is empty. If the pieces have more than `settings.memory_bytes`,
    only the needed rows are copied to a spill file.

    Args:
        pieces: where the rows are. A piece is consecutive rows of a staged file.
        numbers: the numbers of the rows that the task needs.
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
    """Yield from each Arrow table its rows with these numbers. Skip a table that has none of them.

    The first one is yielded even if it has none, because its schema is needed.

    Args:
        numbers: row numbers, counted over all tables, ascending.
    """
    start = 0
    for number, table in enumerate(tables):
        first, last = np.searchsorted(numbers, [start, start + table.num_rows])
        if last > first or number == 0:
            yield take_rows(table, numbers[first:last] - start)
        start += table.num_rows


def _select_columns(tables: Iterable[pa.Table], settings: TaskRowsSettings, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield each Arrow table with only the named columns, the ordering column, `ARRIVAL` and `KEY`.

    A column that it lacks is left out.
    """
    names = [*columns, settings.ordering] if settings.ordering else list(columns)
    for table in tables:
        top_columns = [find_top_column(name, table.column_names) for name in names]
        wanted = dict.fromkeys([*top_columns, ARRIVAL, KEY])
        yield table.select([name for name in wanted if name in table.column_names])


def _drop_arrival(table: pa.Table) -> pa.Table:
    """Return the rows of an Arrow table without the column `ARRIVAL`, if it has one."""
    return table.drop_columns([ARRIVAL]) if ARRIVAL in table.column_names else table


def _concat_keys(tables: Sequence[pa.Table]) -> pa.ChunkedArray:
    """Return the record keys of the rows of several Arrow tables, in one array."""
    chunks: list[pa.Array] = []
    for table in tables:
        chunks += table[KEY].chunks
    return pa.chunked_array(chunks)


def ordering_values(tables: Sequence[pa.Table], column: str) -> pa.ChunkedArray:
    """Return the values of the ordering column of several Arrow tables, in one array.

    Args:
        column: the name of the ordering column; `a.b` is a field of a struct.

    Raises:
        SchemaError: one of the tables does not have the column.
    """
    chunks: list[pa.Array] = []
    for table in tables:
        values = find_column(table, column)
        if values is None:
            raise SchemaError(missing_ordering(column, table.column_names))
        chunks += values.chunks
    return pa.chunked_array(chunks)


def missing_ordering(column: str, columns: Sequence[str]) -> str:
    """Return the error message for rows that do not have the ordering column. It begins with the message of Hudi.

    Args:
        column: the name of the ordering column.
        columns: the columns that the rows have.
    """
    names = ", ".join(name for name in columns if name not in (KEY, ARRIVAL))
    return (
        f"{column}(Part -{column}) field not found in record. Acceptable fields were :[{names}]: it decides which of several "
        "rows of a key is newer. Set hoodie.datasource.write.precombine.field to a column of the rows, or "
        "hoodie.combine.before.upsert=false to let the last one win, with penstock.upsert.last.row.wins=true also in new files"
    )


def _hold(tables: Iterator[pa.Table], settings: TaskRowsSettings) -> list[pa.Table]:
    """Return the Arrow tables as a list, in memory if they have at most `settings.memory_bytes`.

    If they have more, write them to a local spill file and return them mapped from that file.
    """
    held: list[pa.Table] = []
    size_bytes = 0
    for table in tables:
        held.append(table)
        size_bytes += table.nbytes
        if size_bytes > settings.memory_bytes:
            return spill_tables(chain(_pop_all(held), tables), settings.spill_folder)
    return held


def _pop_all(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield the Arrow tables and remove each from the list, so that its memory is free once it is written to the spill file."""
    while tables:
        yield tables.pop(0)


def split_row_numbers(numbers: Positions) -> Iterator[Positions]:
    """Yield the row numbers in arrays of at most `ROW_GROUP_ROWS`, so that a task copies only so many rows at a time."""
    for start in range(0, len(numbers), ROW_GROUP_ROWS):
        yield numbers[start : start + ROW_GROUP_ROWS]

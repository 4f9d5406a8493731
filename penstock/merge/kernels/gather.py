"""Kernels that take rows by position and columns by path.

They stay right when a column holds more bytes than 32-bit offsets reach.

Arrow's own `take` first concatenates the chunks of a column. Beyond 2 GiB of text it fails, and older releases return an array
whose offsets have overflowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

#: Numbers of rows.
Positions = npt.NDArray[np.int64]
#: One boolean per row, or per pair of rows.
Flags = npt.NDArray[np.bool_]

#: Bytes that a column may have and still be addressed with 32 bits; the last MiB is a reserve for padding and validity bits.
OFFSETS_REACH = (1 << 31) - (1 << 20)


def take_rows(table: pa.Table, rows: Positions) -> pa.Table:
    """Return the rows of an Arrow table at these positions, in this order. A position may occur several times.

    Consecutive positions are returned as a slice, without a copy. Columns may have several chunks.
    """
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    if _fits_offsets(table, rows):
        return table.take(pa.array(rows))
    # Too large for 32-bit offsets: take each row once, batch by batch, widen to 64-bit offsets, and put the rows in order there.
    distinct, back = np.unique(rows, return_inverse=True)
    wide = pa.schema([field.with_type(_widen_type(field.type)) for field in table.schema])
    taken = pa.concat_tables([part.cast(wide) for part in _take_by_batch(table, distinct)]).take(pa.array(back))
    return pa.concat_tables([part.cast(table.schema) for part in _split_to_reach(taken)])


def take_from_tables(tables: Sequence[pa.Table], rows: Positions) -> pa.Table:
    """Return rows of several Arrow tables by position, in this order. A table with none of the rows is not read.

    Args:
        rows: the positions of the rows, counted through all tables as if they were concatenated.
    """
    if len(tables) == 1:
        return take_rows(tables[0], rows)
    starts = np.cumsum([0, *(table.num_rows for table in tables)])
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    bounds = np.searchsorted(ascending, starts)
    parts = []
    for number, table in enumerate(tables):
        of_table = ascending[bounds[number] : bounds[number + 1]]
        if len(of_table):
            parts.append(take_rows(table, of_table - starts[number]))
    taken = pa.concat_tables(parts) if parts else tables[0].slice(0, 0)
    if np.array_equal(order, np.arange(len(order))):
        return taken
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return take_rows(taken, back)


def find_column(table: pa.Table, path: str) -> pa.ChunkedArray | None:
    """Return an Arrow table's column with the name `path`, or its struct field at a path such as `a.b`; None if it has neither.

    The field of a null struct is null.
    """
    if path in table.column_names:
        return table[path]
    top, *rest = path.split(".")
    if not rest or top not in table.column_names:
        return None
    kind = table.schema.field(top).type
    for name in rest:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return pc.struct_field(table[top], rest)


def find_top_column(path: str, names: Sequence[str]) -> str:
    """Return the name of the top-level column of a path such as `a.b`: `a`, or `a.b` itself if a column has that name.

    Args:
        names: the names of all top-level columns.
    """
    return path if path in names else path.split(".")[0]


def have_same_values(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Flags:
    """Return a mask over the rows, true where row i of `left` and of `right` are equal in `columns` (struct fields as `a.b`).

    Null equals null. A column that `left` or `right` lacks is not compared.
    """
    same = np.ones(left.num_rows, np.bool_)
    for name in columns:
        left_values = find_column(left, name)
        right_values = find_column(right, name)
        if left_values is None or right_values is None:
            continue
        both_null = pc.and_(pc.is_null(left_values), pc.is_null(right_values))
        equal = pc.fill_null(pc.equal(left_values, right_values), False)
        same &= np.asarray(pc.or_(equal, both_null), dtype=np.bool_)
    return same


def to_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return all values in one array. A string column that is too large for 32-bit offsets becomes large_string."""
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_string(values.type) and values.nbytes > OFFSETS_REACH:
        values = values.cast(pa.large_string())
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)


def _fits_offsets(table: pa.Table, rows: Positions) -> bool:
    """Whether 32-bit offsets are enough for every column of an Arrow table, and of the result of taking `rows` from it."""
    size = table.nbytes
    if size > OFFSETS_REACH:
        return False
    # Most calls are settled by one of two upper bounds, without counting how often each row is wanted.
    if size * len(rows) <= OFFSETS_REACH:
        return True
    most_often = int(np.bincount(rows).max())
    return size * most_often <= OFFSETS_REACH


def _take_by_batch(table: pa.Table, rows: Positions) -> Iterator[pa.Table]:
    """Yield the rows of an Arrow table at these ascending positions, as one Arrow table per record batch.

    Each yielded table holds the rows of one record batch, so its columns fit 32-bit offsets.
    """
    start = 0
    for batch in table.to_batches():
        first, last = np.searchsorted(rows, [start, start + batch.num_rows])
        yield pa.Table.from_batches([batch.take(pa.array(rows[first:last] - start))])
        start += batch.num_rows


def _split_to_reach(table: pa.Table) -> Iterator[pa.Table]:
    """Yield slices of an Arrow table. The columns of a slice each fit 32-bit offsets.

    A slice of one row is not split further, whatever its size.
    """
    if table.nbytes <= OFFSETS_REACH or table.num_rows == 1:
        yield table
        return
    half = table.num_rows // 2
    yield from _split_to_reach(table.slice(0, half))
    yield from _split_to_reach(table.slice(half))


def _widen_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with 64-bit offsets at every depth. Keys of maps are left out, because pyarrow 25 crashes on that cast."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_widen_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(_widen_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_widen_type(kind.item_type)))
    return kind

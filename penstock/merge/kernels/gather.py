"""Rows by position and columns by path. Kernels that stay right where a column holds more bytes than 32-bit offsets reach.

Arrow's own `take` glues the chunks of a column together first; beyond 2 GiB of text it fails, and older releases give
back an array whose offsets have overflowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Positions = npt.NDArray[np.int64]

#: Bytes that a column may have and still be addressed with 32 bits.
OFFSETS_REACH = (1 << 31) - (1 << 20)


def take_rows(table: pa.Table, rows: Positions) -> pa.Table:
    """The rows at these positions, in this order. Columns may come in several chunks. Neighbours are not copied."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    if _reaches(table, rows):
        return table.take(pa.array(rows))
    wanted, back = np.unique(rows, return_inverse=True)
    wide = pa.schema([f.with_type(_wide(f.type)) for f in table.schema])
    taken = pa.concat_tables([part.cast(wide) for part in _of_batches(table, wanted)]).take(pa.array(back))
    return pa.concat_tables([part.cast(table.schema) for part in _parts(taken)])


def take_across(tables: Sequence[pa.Table], rows: Positions) -> pa.Table:
    """The rows at these positions of all tables behind one another, in this order. Only tables with such rows are looked at."""
    if len(tables) == 1:
        return take_rows(tables[0], rows)
    starts = np.cumsum([0, *(table.num_rows for table in tables)])
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    bounds = np.searchsorted(ascending, starts)
    parts = [
        take_rows(table, ascending[bounds[i] : bounds[i + 1]] - starts[i])
        for i, table in enumerate(tables)
        if bounds[i + 1] > bounds[i]
    ]
    found = pa.concat_tables(parts) if parts else tables[0].slice(0, 0)
    if np.array_equal(order, np.arange(len(order))):
        return found
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return take_rows(found, back)


def column_at(table: pa.Table, path: str) -> pa.ChunkedArray | None:
    """A column, or a field inside structs (`a.b`); None if there is none. A null struct has null fields."""
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


def top_column(path: str, names: list[str]) -> str:
    """The column that a path leads into."""
    return path if path in names else path.split(".")[0]


def are_alike(one: pa.Table, other: pa.Table, columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Where rows have the same values in these columns; fields of structs as `a.b`. A column that a side lacks does not count."""
    alike = np.ones(one.num_rows, np.bool_)
    for name in columns:
        a, b = column_at(one, name), column_at(other, name)
        if a is not None and b is not None:
            both_null = pc.and_(pc.is_null(a), pc.is_null(b))
            alike &= np.asarray(pc.or_(pc.fill_null(pc.equal(a, b), False), both_null), dtype=np.bool_)
    return alike


def _reaches(table: pa.Table, rows: Positions) -> bool:
    """Whether no column of the source or of the result can outgrow its offsets."""
    size = table.nbytes
    if size > OFFSETS_REACH:
        return False
    if size * len(rows) <= OFFSETS_REACH:
        return True
    most_often = int(np.bincount(rows).max())
    return size * most_often <= OFFSETS_REACH


def _of_batches(table: pa.Table, rows: Positions) -> Iterator[pa.Table]:
    """The rows of each batch of the table, which must be ascending; a batch is within reach by itself."""
    start = 0
    for batch in table.to_batches():
        first, last = np.searchsorted(rows, [start, start + batch.num_rows])
        yield pa.Table.from_batches([batch.take(pa.array(rows[first:last] - start))])
        start += batch.num_rows


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """Slices that 32-bit offsets reach; a single row always counts as one."""
    if table.nbytes <= OFFSETS_REACH or table.num_rows == 1:
        yield table
        return
    half = table.num_rows // 2
    yield from _parts(table.slice(0, half))
    yield from _parts(table.slice(half))


def _wide(kind: pa.DataType) -> pa.DataType:
    """The same type with 64-bit offsets, at every depth but in the keys of maps, whose cast ends pyarrow 25's process."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_wide(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(_wide(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_wide(kind.item_type)))
    return kind

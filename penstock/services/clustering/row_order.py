"""In which order rows are written: by columns one after the other, or along a curve through them. Kernels over Arrow tables.

What rows are sorted by is a table of its own, the keys: the columns themselves, or the numbers of a curve. Nulls come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock import options as o
from penstock.errors import OptionError, SchemaError
from penstock.merge.kernels.gather import Positions, find_column, find_top_column
from penstock.services.clustering.curves import MOST_COLUMNS, distinct, hilbert, ranks_in, widened, words_of, z_order


class Layout(str, Enum):
    """How several columns make one order."""

    LINEAR = "LINEAR"
    Z_ORDER = "ZORDER"
    HILBERT = "HILBERT"


@dataclass(frozen=True)
class Ordering:
    """What rows are ordered by."""

    #: Columns, or fields inside structs.
    columns: tuple[str, ...]
    layout: Layout = Layout.LINEAR
    #: A curve goes by the ranks of values among so many rows; None: by the values themselves.
    sample_rows: int | None = None

    @property
    def is_curve(self) -> bool:
        """Whether the columns are mixed; there is nothing to mix with one."""
        return self.layout is not Layout.LINEAR and len(self.columns) > 1


def check_ordering(ordering: Ordering, schema: pa.Schema) -> None:
    """Refuse what rows cannot be sorted by.

    Raises:
        SchemaError: a column is not there, or has no order.
        OptionError: there are too many for a curve.
    """
    rows = schema.empty_table()
    for path in ordering.columns:
        column = find_column(rows, path)
        if column is None:
            raise SchemaError(
                f"{o.CLUSTERING_SORT_COLUMNS.key} names {path!r}, which is not among the columns {', '.join(schema.names)}"
            )
        if pa.types.is_nested(column.type):
            raise SchemaError(
                f"{o.CLUSTERING_SORT_COLUMNS.key} names {path!r}, a {column.type}, which has no order; choose another"
            )
    if ordering.is_curve and len(ordering.columns) > MOST_COLUMNS:
        raise OptionError(
            f"{o.CLUSTERING_SORT_COLUMNS.key} names {len(ordering.columns)} columns, and a curve goes through {MOST_COLUMNS} at "
            f"most; name fewer, or set {o.LAYOUT_OPTIMIZE_STRATEGY.key}=LINEAR"
        )


def columns_read(ordering: Ordering, names: Sequence[str]) -> list[str]:
    """The columns of a file that the order depends on."""
    return list(dict.fromkeys(find_top_column(path, list(names)) for path in ordering.columns))


def sort_columns(rows: pa.Table, ordering: Ordering) -> pa.Table:
    """The columns that rows are ordered by, numbered; bytes of one length are like others."""
    columns = [find_column(rows, path) for path in ordering.columns]
    found = [c.cast(pa.binary()) if c is not None and pa.types.is_fixed_size_binary(c.type) else c for c in columns]
    return pa.table(found, names=[str(number) for number in range(len(found))])


def keys_of(columns: pa.Table, ordering: Ordering, sample: pa.Table | None = None) -> pa.Table:
    """What rows are sorted by.

    Args:
        columns: what `sort_columns` gives.
        sample: the same of rows that stand for all; else these rows do.
    """
    if not ordering.is_curve:
        return columns
    some = sample if sample is not None else sample_of(columns, ordering.sample_rows or columns.num_rows)
    place = widened if ordering.sample_rows is None else ranks_in
    words = [place(few, column) for few, column in zip(some.columns, columns.columns, strict=True)]
    curve = hilbert(words) if ordering.layout is Layout.HILBERT else z_order(words)
    return pa.table([pa.array(word) for word in curve], names=[str(number) for number in range(len(curve))])


def sample_of(rows: pa.Table, count: int) -> pa.Table:
    """Some rows, evenly apart."""
    if rows.num_rows <= count:
        return rows
    return rows.take(pa.array(np.linspace(0, rows.num_rows - 1, count).astype(np.int64)))


def order_of(keys: pa.Table) -> Positions:
    """The positions of rows in the order of their keys; equal ones stay as they stand."""
    if keys.num_columns == 1 and not _is_text(keys.column(0).type) and not keys.column(0).null_count:
        return pc.sort_indices(keys.column(0)).to_numpy()
    numbers = [number for column in keys.columns if (number := _numbers(column)).size and number.min() != number.max()]
    if not numbers:
        return np.arange(keys.num_rows)
    if len(numbers) == 1:
        return _stable_order(numbers[0])
    return np.lexsort(numbers[::-1])


def _stable_order(numbers: npt.NDArray[np.unsignedinteger]) -> Positions:
    """The positions of numbers in their order. Those of 32 bits are sorted by the lower half, then by the upper: numpy sorts
    numbers of 16 bits by their digits, much faster than it compares."""
    if numbers.dtype != np.uint32:
        return np.argsort(numbers, kind="stable")
    low = np.argsort(numbers.astype(np.uint16), kind="stable")
    return low[np.argsort((numbers[low] >> np.uint32(16)).astype(np.uint16), kind="stable")]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.unsignedinteger]:
    """Numbers in the order of a column's values, among these rows; as narrow as may be, they sort faster."""
    kind = column.type
    if kind == pa.uint64():
        return column.to_numpy()
    return _ranks(column) if _is_text(kind) or pa.types.is_decimal(kind) else words_of(column)


def _ranks(column: pa.ChunkedArray) -> npt.NDArray[np.unsignedinteger]:
    """Ranks of values that are compared once each, however often they stand there."""
    values, codes = distinct(column)
    order = pc.sort_indices(values).to_numpy()
    ranks = np.empty(len(order) + 1, np.min_scalar_type(len(order) + 1))
    ranks[order] = np.arange(1, len(order) + 1)
    ranks[-1] = 0  # nulls come first
    return ranks[codes]

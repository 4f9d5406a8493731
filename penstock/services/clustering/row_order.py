"""The order in which clustering writes rows: sorted by columns, or along a space-filling curve through the columns.

    rows → sort columns → sort keys → positions

Sort columns are the columns that `hoodie.clustering.plan.strategy.sort.columns` names. Sort keys are the columns that rows are
compared by: the sort columns themselves, or the position of each row on a curve, as columns of numbers. The positions at the
end are the row numbers in sort order. Nulls come first. All functions work on Arrow tables in memory.
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
from penstock.filegroup.fill_meta_columns import KEY_COLUMN, body_schema
from penstock.merge.kernels.gather import Positions, find_column, find_top_column
from penstock.options import Options
from penstock.schema import META_COLUMNS, avro_to_arrow
from penstock.services.clustering.curves import (
    MOST_COLUMNS,
    encode_distinct,
    hilbert,
    order_words,
    rank_in_sample,
    stretch_to_sample,
    z_order,
)

#: Sort modes of a bulk insert that leave the rows of a partition in the order of their keys.
_SORTS_BY_KEY = ("GLOBAL_SORT", "PARTITION_SORT")


class RowOrderKind(str, Enum):
    """How to order rows by several columns: column after column (LINEAR), or along a z-order or hilbert curve."""

    LINEAR = "LINEAR"
    Z_ORDER = "ZORDER"
    HILBERT = "HILBERT"


@dataclass(frozen=True)
class Ordering:
    """The columns to sort rows by, and how: one column after another, or along a z-order or hilbert curve. Sent to workers."""

    #: Names of columns, or paths of fields inside structs (`a.b`).
    columns: tuple[str, ...]
    kind: RowOrderKind = RowOrderKind.LINEAR
    #: Number of sampled rows among which a curve ranks values; None if the curve uses the values themselves.
    sample_rows: int | None = None

    @property
    def is_curve(self) -> bool:
        """Whether rows are sorted along a z-order or hilbert curve. False for a single column, which is sorted by its values."""
        return self.kind is not RowOrderKind.LINEAR and len(self.columns) > 1


def read_ordering(options: Options) -> Ordering | None:
    """Return the ordering that the options ask for; None if rows are not to be sorted.

    Rows are sorted by `hoodie.clustering.plan.strategy.sort.columns` if set, otherwise by record key if
    `hoodie.bulkinsert.sort.mode` is a mode that sorts.
    """
    columns = options[o.CLUSTERING_SORT_COLUMNS]
    if not columns:
        return Ordering((KEY_COLUMN,)) if options[o.BULK_INSERT_SORT_MODE] in _SORTS_BY_KEY else None
    kind = RowOrderKind(options[o.LAYOUT_OPTIMIZE_STRATEGY].replace("-", ""))
    sample_rows = options[o.LAYOUT_CURVE_SAMPLE] if options[o.LAYOUT_CURVE_METHOD] == "SAMPLE" else None
    return Ordering(columns, kind, sample_rows)


def sortable_columns(avro: str) -> pa.Schema:
    """Return the Arrow schema of the columns that a clustering may sort by: the table's columns and the meta columns.

    Args:
        avro: the Avro schema of the table, as JSON.
    """
    return body_schema(pa.schema([field for field in avro_to_arrow(avro) if field.name not in META_COLUMNS]))


def check_ordering(ordering: Ordering, schema: pa.Schema) -> None:
    """Raise an error if rows with the columns of `schema` cannot be sorted by `ordering`.

    Raises:
        SchemaError: a column does not exist, or its values have no order.
        OptionError: there are too many columns for a curve.
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
    """Return the names of the top-level columns to read from a file to sort its rows, without duplicates.

    Args:
        names: the names of the file's columns.
    """
    return list(dict.fromkeys(find_top_column(path, list(names)) for path in ordering.columns))


def sort_columns(rows: pa.Table, ordering: Ordering) -> pa.Table:
    """Return the columns of `rows` to sort by, as an Arrow table whose columns are named "0", "1" and so on."""
    columns = []
    for path in ordering.columns:
        column = find_column(rows, path)
        if column is not None and pa.types.is_fixed_size_binary(column.type):
            column = column.cast(pa.binary())  # the kernels below know binary columns with offsets only
        columns.append(column)
    return pa.table(columns, names=[str(number) for number in range(len(columns))])


def sort_keys(columns: pa.Table, ordering: Ordering, sample: pa.Table | None = None) -> pa.Table:
    """Return the columns by which rows are compared: the sort columns, or for a curve each row's place on the curve, as numbers.

    Args:
        columns: the columns to sort by, as `sort_columns` names them: "0", "1" and so on.
        sample: the same columns of sampled rows of the whole group. Tasks that sort only some rows of a group need the same
            sample, because it decides where values lie on a curve. None to sample `columns`.
    """
    if not ordering.is_curve:
        return columns
    if sample is None:
        sample = sample_of(columns, ordering.sample_rows or columns.num_rows)
    to_words = stretch_to_sample if ordering.sample_rows is None else rank_in_sample
    words = [to_words(sampled, column) for sampled, column in zip(sample.columns, columns.columns, strict=True)]
    curve = hilbert(words) if ordering.kind is RowOrderKind.HILBERT else z_order(words)
    return pa.table([pa.array(word) for word in curve], names=[str(number) for number in range(len(curve))])


def sample_of(rows: pa.Table, count: int) -> pa.Table:
    """Return a sample of at most `count` rows, taken at equal distances."""
    if rows.num_rows <= count:
        return rows
    return rows.take(pa.array(np.linspace(0, rows.num_rows - 1, count).astype(np.int64)))


def order_of(keys: pa.Table) -> Positions:
    """Return the positions of rows in the order of their sort keys. Rows with equal keys keep their order."""
    if keys.num_columns == 1 and not _is_text(keys.column(0).type) and not keys.column(0).null_count:
        return pc.sort_indices(keys.column(0)).to_numpy()
    # Arrow sorts several columns, strings and nulls by comparing values; sorting by integers of the same order is much faster.
    numbers = []
    for column in keys.columns:
        of_column = _order_numbers(column)
        if of_column.size and of_column.min() != of_column.max():  # a column of equal values decides nothing
            numbers.append(of_column)
    if not numbers:
        return np.arange(keys.num_rows)
    if len(numbers) == 1:
        return _stable_order(numbers[0])
    return np.lexsort(numbers[::-1])  # lexsort takes the most significant key last


def _stable_order(numbers: npt.NDArray[np.unsignedinteger]) -> Positions:
    """Return the positions of numbers in ascending order. Equal numbers keep their order.

    numpy sorts numbers of 16 bits by their digits (radix sort), much faster than it sorts wider ones by comparison. So numbers of
    32 bits are sorted by their lower half and then, stably, by their upper half.
    """
    if numbers.dtype != np.uint32:
        return np.argsort(numbers, kind="stable")
    by_lower = np.argsort(numbers.astype(np.uint16), kind="stable")
    upper = (numbers[by_lower] >> np.uint32(16)).astype(np.uint16)
    return by_lower[np.argsort(upper, kind="stable")]


def _is_text(kind: pa.DataType) -> bool:
    """Whether values of the type are strings or binary values."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _order_numbers(column: pa.ChunkedArray) -> npt.NDArray[np.unsignedinteger]:
    """Return an unsigned integer per value; the integers sort as the values do.

    The integer type is narrow if possible, because narrow integers sort faster.
    """
    kind = column.type
    if kind == pa.uint64():  # a number of a curve
        return column.to_numpy()
    if _is_text(kind) or pa.types.is_decimal(kind):
        return _rank_among_values(column)
    return order_words(column)


def _rank_among_values(column: pa.ChunkedArray) -> npt.NDArray[np.unsignedinteger]:
    """Return the rank of each value among the distinct values of the column, from 1; 0 for nulls.

    Sorts only the distinct values.
    """
    values, codes = encode_distinct(column)
    order = pc.sort_indices(values).to_numpy()
    ranks = np.empty(len(order) + 1, np.min_scalar_type(len(order) + 1))
    ranks[order] = np.arange(1, len(order) + 1)
    ranks[-1] = 0  # the code behind the last value is that of nulls, which come first
    return ranks[codes]

"""`penstock.aggregate`: a payload that aggregates named columns over all rows of a key, for example sums them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import OptionError, SchemaError
from penstock.merge.kernels.blend import blend, cast_column, fill_nulls
from penstock.merge.kernels.gather import Flags
from penstock.merge.kernels.lists import concat_lists
from penstock.merge.merger import Merger
from penstock.merge.ordered import JoiningMerger
from penstock.merge.payload_settings import PAYLOAD_OPTION, PayloadSettings

AGGREGATES = ("sum", "max", "min", "first", "last", "collect")


@dataclass(frozen=True)
class Aggregate(JoiningMerger):
    """A merger that aggregates named columns over all rows of a key. Other columns have the values of the key's newest row.

    `columns` holds pairs of a column and its aggregate. The aggregates `sum`, `max`, `min`, `first` and `last` skip nulls;
    `collect` concatenates lists.
    """

    #: Pairs of a column and the name of its aggregate.
    columns: tuple[tuple[str, str], ...]
    ordering: str | None = None

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return the merger for the option `penstock.payload.aggregate`, a list such as `amount:sum,tags:collect`.

        Raises:
            OptionError: the option is missing, or an item is not `column:aggregate`.
        """
        columns = []
        for part in settings.own.get("aggregate", "").split(","):
            if part.strip():
                column, _, aggregate = part.strip().rpartition(":")
                columns.append((column.strip(), aggregate.strip()))
        if not columns or not all(column for column, _ in columns):
            raise OptionError(
                f"{PAYLOAD_OPTION}=penstock.aggregate needs penstock.payload.aggregate=<column>:<aggregate>,..., such as "
                f"fare:sum,seen:max; it is {settings.own.get('aggregate')!r}"
            )
        return cls(tuple(columns), settings.ordering)

    def __post_init__(self) -> None:
        for column, aggregate in self.columns:
            if aggregate not in AGGREGATES:
                raise OptionError(f"aggregate {aggregate!r} of column {column!r} is none of {', '.join(AGGREGATES)}")

    def join(self, old: pa.Table, new: pa.Table, late: Flags) -> pa.Table:
        aggregates = dict(self.columns)
        if missing := [name for name in aggregates if name not in new.column_names]:
            raise SchemaError(f"column {missing[0]!r} is to be aggregated, but the rows have {', '.join(new.column_names)}")
        columns = []
        for field in new.schema:
            stored = cast_column(old, field)
            incoming = new[field.name]
            earlier = blend(late, incoming, stored)
            later = blend(late, stored, incoming)
            columns.append(_aggregate(aggregates.get(field.name), field, earlier, later))
        return pa.table(columns, schema=new.schema)


def _aggregate(name: str | None, field: pa.Field, earlier: pa.ChunkedArray, later: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return a column with the aggregate of value i of `earlier` and value i of `later`, for every i.

    Args:
        name: the aggregate, such as `sum`; None: the column has no aggregate, and `later` is returned.
        field: the column, for its type.
        earlier: the column's values in the older rows. Row i of `earlier` and row i of `later` have the same key.
        later: the column's values in the newer rows.
    """
    try:
        if name == "sum":
            return fill_nulls(_sum(earlier, later), fill_nulls(earlier, later))
        if name in ("max", "min"):
            return _extreme(name, earlier, later)
        if name == "collect":
            return concat_lists([earlier, later])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise SchemaError(f"{name} of column {field.name!r}, which is {field.type}, cannot be taken: {e}") from e
    if name == "first":
        return fill_nulls(earlier, later)
    if name == "last":
        return fill_nulls(later, earlier)
    return later


def _sum(earlier: pa.ChunkedArray, later: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return `earlier` plus `later`, row by row, in the type of the column; null where either value is null."""
    kind = earlier.type
    if pa.types.is_decimal128(kind):
        # Arrow's sum of two decimals has one digit more, which 128 bits may not hold.
        wide = pa.decimal256(kind.precision, kind.scale)
        earlier = earlier.cast(wide)
        later = later.cast(wide)
    return pc.add_checked(earlier, later).cast(kind)


def _extreme(name: str, earlier: pa.ChunkedArray, later: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return for each row the greater (`max`) or the lesser (`min`) of the values in `earlier` and `later`.

    If one of the two values is null, the other one is returned. Works for any ordered type.

    Args:
        name: `max` or `min`.
    """
    if pa.types.is_floating(earlier.type):
        return (pc.max_element_wise if name == "max" else pc.min_element_wise)(earlier, later)
    # Arrow's own max_element_wise and min_element_wise lack booleans and zoned times, so compare and choose.
    earlier_wins = (pc.greater if name == "max" else pc.less)(earlier, later)
    chosen = blend(np.asarray(pc.fill_null(earlier_wins, False), dtype=np.bool_), earlier, later)
    return fill_nulls(chosen, earlier)

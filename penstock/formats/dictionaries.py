"""Chooses the columns of a Parquet file to write with a dictionary: the columns whose values repeat.

For columns without repetition a dictionary only costs time. The number of distinct values in a row group is estimated from a
sample. The share of distinct values in the sample alone would mislead: if a column has 50,000 possible values, nearly all values
in 4,096 rows are distinct, but only a third of those in 125,000 rows. Strings gain from a dictionary at less repetition than
numbers, because numbers are short. Nulls are not counted. Columns inside lists, maps and structs are chosen in the same way. They
have Parquet names such as `tags.list.element`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

#: A sample is an eighth of the rows, within these bounds: a larger sample of few rows would cost as much as writing them.
_LEAST_ROWS = 1_024
_MOST_ROWS = 4_096
#: The greatest share of distinct values at which a dictionary saves more than it costs.
_MOST_DISTINCT_NUMBERS = 0.25
_MOST_DISTINCT_STRINGS = 0.4
#: Made once: a file of few rows would spend more time on it than on counting.
_ONLY_VALID = pc.CountOptions(mode="only_valid")


def repetitive_columns(rows: pa.Table) -> list[str]:
    """Return the Parquet names (`city`, `tags.list.element`) of the columns whose values repeat often enough for a dictionary.

    A column repeats often enough if at most 25 % of its values are distinct; a column of strings, if at most 40 % are.

    Args:
        rows: the rows of one row group. Only the first rows are sampled.
    """
    sample = rows.slice(0, min(_MOST_ROWS, max(_LEAST_ROWS, rows.num_rows // 8)))
    rows_per_sample_row = rows.num_rows / max(1, sample.num_rows)
    repetitive = []
    for name, column in zip(rows.column_names, sample.columns, strict=True):
        whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for path, values in _leaf_columns(name, whole):
            if _repeats(values, rows_per_sample_row):
                repetitive.append(path)
    return repetitive


def _leaf_columns(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield (Parquet name, values) of each Parquet column that stores the Arrow column `path`. A nested column has several."""
    kind = values.type
    if pa.types.is_struct(kind):
        for number, field in enumerate(kind):
            yield from _leaf_columns(f"{path}.{field.name}", pc.struct_field(values, [number]))
    elif pa.types.is_map(kind):
        yield from _leaf_columns(f"{path}.key_value.key", values.keys)
        yield from _leaf_columns(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaf_columns(f"{path}.list.element", pc.list_flatten(values))
    else:
        yield path, values


def _repeats(values: pa.Array, rows_per_sample_row: float) -> bool:
    """Whether the values of a column repeat often enough in a row group for a dictionary.

    True if at most 25 % of the sampled values are distinct. For strings also true if at most 40 % of the values in the row group
    are, by an estimate. Always true for a dictionary array, never for booleans.

    Args:
        values: the column's values in the sample.
        rows_per_sample_row: the rows of the row group divided by the rows of the sample.
    """
    kind = values.type
    count = len(values) - values.null_count
    if pa.types.is_dictionary(kind):
        return True
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind) or not len(values):
        return False
    distinct = pc.call_function("count_distinct", [values], _ONLY_VALID).as_py()
    if distinct <= max(1, count * _MOST_DISTINCT_NUMBERS):
        return True
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return False
    if rows_per_sample_row == 1:  # the sample is the whole row group, and nothing has to be estimated
        return bool(distinct <= _MOST_DISTINCT_STRINGS * count)
    group_count = count * rows_per_sample_row
    return estimate_distinct(round(group_count), distinct, count) <= _MOST_DISTINCT_STRINGS * group_count


def estimate_distinct(rows: int, sample_distinct: int, sample_rows: int) -> float:
    """Estimate the number of distinct values in `rows` rows from a sample of them.

    All possible values are assumed to be equally likely. A bisection finds how many possible values there must be, so that
    `sample_rows` rows are expected to have `sample_distinct` distinct values.

    Args:
        rows: the number of rows to estimate for.
        sample_distinct: the number of distinct values in the sample.
        sample_rows: the number of rows in the sample.
    """
    if sample_distinct >= sample_rows:
        return float(rows)
    low = math.log(sample_distinct)
    high = low + 2 * math.log(sample_rows) + 1
    for _ in range(50):
        middle = (low + high) / 2
        if _expected_distinct(math.exp(middle), sample_rows) < sample_distinct:
            low = middle
        else:
            high = middle
    return _expected_distinct(math.exp(low), rows)


def _expected_distinct(possible: float, rows: int) -> float:
    """Return the expected number of distinct values in `rows` rows, if each row has one of `possible` equally likely values."""
    return -possible * math.expm1(-rows / possible)

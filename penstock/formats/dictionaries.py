"""Which columns of a Parquet file are worth a dictionary: those whose values repeat. On others it only costs time.

A sample says how often values repeat in it, and so how many different ones a whole row group will have: of 50,000 drivers
nearly every one is new among 4,096 rows, and only every third among 125,000. Texts gain from a dictionary sooner than numbers,
which are short. Nulls are not among the values. Columns inside of lists, maps and structs count like others, by Parquet's names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

#: Rows of a sample: an eighth, where that is no fewer and no more. Looking at many of few would take as long as writing them.
_LEAST_ROWS, _MOST_ROWS = 1_024, 4_096
#: Different values up to which a dictionary pays, as a part of all.
_OF_NUMBERS, _OF_TEXTS = 0.25, 0.4


def repetitive_columns(rows: pa.Table) -> list[str]:
    """Names of the columns of a row group like `rows` that repeat, as a Parquet writer takes them."""
    head = rows.slice(0, min(_MOST_ROWS, max(_LEAST_ROWS, rows.num_rows // 8)))
    times = rows.num_rows / max(1, head.num_rows)
    leaves = (leaf for name in rows.column_names for leaf in _leaves(name, head[name].combine_chunks()))
    return [path for path, values in leaves if _repeats(values, times)]


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The columns that a value becomes, with their values."""
    kind = values.type
    if pa.types.is_struct(kind):
        for number, field in enumerate(kind):
            yield from _leaves(f"{path}.{field.name}", pc.struct_field(values, [number]))
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", pc.list_flatten(values))
    else:
        yield path, values


def _repeats(values: pa.Array, times: float) -> bool:
    """Whether values repeat enough where there are so many times as many."""
    kind, count = values.type, len(values) - values.null_count
    if pa.types.is_dictionary(kind):
        return True
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind) or not len(values):
        return False
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    if distinct <= max(1, count * _OF_NUMBERS):
        return True
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return texts and distinct_among(round(count * times), distinct, count) <= _OF_TEXTS * count * times


def distinct_among(rows: int, seen: int, sample: int) -> float:
    """How many different values so many rows have, if a sample has `seen` and each is as likely as any other."""
    if seen >= sample:
        return float(rows)
    low, high = math.log(seen), math.log(seen) + 2 * math.log(sample) + 1
    for _ in range(50):  # the number of values there are at all, of which the sample would show just these
        middle = (low + high) / 2
        low, high = (middle, high) if _shown(math.exp(middle), sample) < seen else (low, middle)
    return _shown(math.exp(low), rows)


def _shown(values: float, rows: int) -> float:
    """How many of these values so many rows show, on average."""
    return -values * math.expm1(-rows / values)

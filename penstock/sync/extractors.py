"""Partition extractors: how the path of a partition becomes one value per partition column of the catalog.

`EXTRACTORS` maps the names of Hudi's classes to functions. A function takes a partition path such as `2024/03/09` and returns its
values. If the path has another form than the function expects, it raises ValueError with a text that describes this form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

from penstock.errors import OptionError
from penstock.options import HIVE_SYNC_PARTITION_EXTRACTOR, HIVE_SYNC_PARTITION_FIELDS
from penstock.options.sync_tool_names import (
    HIVE_STYLE_EXTRACTOR,
    MULTI_PART_EXTRACTOR,
    NON_PARTITIONED_EXTRACTOR,
    SINGLE_PART_EXTRACTOR,
    SLASH_DAY_EXTRACTOR,
    SLASH_HOUR_EXTRACTOR,
)

#: The value of a partition whose column is null, in Hive and in Hudi's paths.
DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"

Extractor = Callable[[str], tuple[str, ...]]


def extract_values(name: str, path: str, fields: Sequence[str], *, decode: bool = False) -> tuple[str, ...]:
    """Return the values of a partition path, one per partition column.

    Args:
        name: the name of the extractor, a key of `EXTRACTORS`.
        path: the partition path.
        fields: the partition columns in the catalog.
        decode: whether values are URL-encoded in the path (`%3A` for `:`) and must be decoded.

    Raises:
        OptionError: the path does not have the form that the extractor expects, or has another number of values than columns.
    """
    try:
        values = EXTRACTORS[name](path)
    except ValueError as e:
        raise OptionError(
            f"partition path {path!r} cannot be registered by {HIVE_SYNC_PARTITION_EXTRACTOR.key}={name}: {e}; "
            f"{suggest_extractor(path, len(fields))}"
        ) from None
    if len(values) != len(fields):
        raise OptionError(
            f"partition path {path!r} has the values {list(values)}, but {HIVE_SYNC_PARTITION_FIELDS.key} has the columns "
            f"{list(fields)} (extractor {name}); {suggest_extractor(path, len(fields))}"
        )
    return tuple(unquote(value) for value in values) if decode else values


def infer_extractor(field_count: int, hive_style: bool) -> str:
    """Return the name of the extractor that fits a table, a key of `EXTRACTORS`.

    Args:
        field_count: the number of partition columns.
        hive_style: whether folders are named `column=value`.
    """
    if field_count == 0:
        return NON_PARTITIONED_EXTRACTOR
    if field_count > 1:
        return MULTI_PART_EXTRACTOR
    return HIVE_STYLE_EXTRACTOR if hive_style else SINGLE_PART_EXTRACTOR


def suggest_extractor(path: str, field_count: int) -> str:
    """Return the end of an error message: it names the extractors that return `field_count` values for the partition path."""
    fitting = []
    for name, extractor in EXTRACTORS.items():
        try:
            values = extractor(path)
        except ValueError:
            continue
        if len(values) == field_count:
            fitting.append(name.rpartition(".")[2])
    if not fitting:
        return "no extractor fits this path and this number of columns: correct the partition columns"
    return f"{' or '.join(fitting)} would fit this path"


def _single_part(path: str) -> tuple[str, ...]:
    """Return the whole path as one value, with dashes instead of slashes."""
    return (path.replace("/", "-"),)


def _multi_part(path: str) -> tuple[str, ...]:
    """Return one value per folder of the path, without `column=`. The empty path has no values."""
    if not path:
        return ()
    return tuple(_after_name(part) for part in path.split("/"))


def _hive_style(path: str) -> tuple[str, ...]:
    """Return the value of a path that is a single folder `column=value`."""
    if path.count("=") != 1 or "/" in path:
        raise ValueError("expected column=value")
    return (_after_name(path),)


def _nothing(path: str) -> tuple[str, ...]:
    """Return an empty tuple: a table without partition columns has no values."""
    return ()


def _slash_day(path: str) -> tuple[str, ...]:
    """Return the date of a path `yyyy/mm/dd`, as `yyyy-mm-dd`."""
    return _join_numbers(path, (4, 2, 2), "expected yyyy/mm/dd")


def _slash_hour(path: str) -> tuple[str, ...]:
    """Return the date and hour of a path `yyyy/mm/dd/hh`, as `yyyy-mm-dd-hh`."""
    return _join_numbers(path, (4, 2, 2, 2), "expected yyyy/mm/dd/hh")


def _join_numbers(path: str, digits: Sequence[int], expected: str) -> tuple[str, ...]:
    """Return the numbers in the folders of a path as one value, padded with zeros and joined with dashes.

    If all folders are Hive's default partition (the date is null), the value is the default partition. Hudi fails on these paths.

    Args:
        path: the partition path.
        digits: the number of digits of each number.
        expected: the message of the ValueError that is raised for a path of another form.
    """
    parts = [_after_name(part) for part in path.split("/")]
    if all(part == DEFAULT_PARTITION for part in parts):
        return (DEFAULT_PARTITION,)
    if len(parts) != len(digits) or not all(re.fullmatch(r"\d+", part) for part in parts):
        raise ValueError(expected)
    return ("-".join(part.zfill(count) for part, count in zip(parts, digits, strict=True)),)


def _after_name(part: str) -> str:
    """Return the name of a folder without `column=` in front. Raise ValueError if it has several equals signs."""
    if part.count("=") > 1:
        raise ValueError("expected at most one = in each part of the path")
    return part.rpartition("=")[2]


#: Extractors by the names of Hudi's classes.
EXTRACTORS: Final[dict[str, Extractor]] = {
    MULTI_PART_EXTRACTOR: _multi_part,
    SINGLE_PART_EXTRACTOR: _single_part,
    HIVE_STYLE_EXTRACTOR: _hive_style,
    NON_PARTITIONED_EXTRACTOR: _nothing,
    SLASH_DAY_EXTRACTOR: _slash_day,
    SLASH_HOUR_EXTRACTOR: _slash_hour,
}

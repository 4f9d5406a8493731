"""Finds the column that an option names.

A name is a top-level column, or a path through structs with dots (`a.b`). A top-level column whose own name has a dot
wins. Names are compared exactly, as Hudi does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from penstock.errors import SchemaError


@dataclass(frozen=True, eq=False)
class Field:
    """A column of the input, under the name that the options use for it."""

    name: str
    path: tuple[str, ...]
    type: DataType

    @property
    def is_top_level(self) -> bool:
        return len(self.path) == 1

    @property
    def column(self) -> Column:
        return F.col(".".join(f"`{part.replace('`', '``')}`" for part in self.path))


def find_field(schema: StructType, name: str, *, option: str) -> Field:
    """Give the field of that name.

    Raises:
        SchemaError: there is none, or there are two.
    """
    found = list(_matches(schema, name))
    if not found:
        raise _missing(schema, name, option)
    path, type_ = found[0]
    if schema.names.count(path[0]) > 1:
        raise SchemaError(f"{option}={name}: the input has more than one column {path[0]!r}. Fix: rename or drop one.")
    return Field(name, path, type_)


def _matches(struct: StructType, name: str) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Give every way to read the name as a path: the fewest steps first, so that a name with dots wins."""
    for field in struct.fields:
        if field.name == name:
            yield (field.name,), field.dataType
    for field in struct.fields:
        if name.startswith(f"{field.name}.") and isinstance(field.dataType, StructType):
            for path, type_ in _matches(field.dataType, name[len(field.name) + 1 :]):
                yield (field.name, *path), type_


def _missing(schema: StructType, name: str, option: str) -> SchemaError:
    known = list(_all_names(schema))
    by_lower_case = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), by_lower_case, n=3)
    hint = f"Nearest: {', '.join(repr(by_lower_case[other]) for other in near)}." if near else f"Columns: {_shown(known)}."
    return SchemaError(f"{option}={name}: the input has no column {name!r} (names are compared exactly). {hint}")


def _all_names(struct: StructType, prefix: str = "") -> Iterator[str]:
    for field in struct.fields:
        yield prefix + field.name
        if isinstance(field.dataType, StructType):
            yield from _all_names(field.dataType, f"{prefix}{field.name}.")


def _shown(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")

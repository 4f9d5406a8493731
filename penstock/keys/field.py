"""`find_field`: finds the column of the input that an option names.

A name is a top-level column, or a path through structs with dots (`a.b`). A top-level column whose own name has a dot wins. Names
are compared exactly, as Hudi does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from penstock.errors import SchemaError

#: The most columns that an error lists.
_MOST_LISTED = 20


@dataclass(frozen=True, eq=False)
class Field:
    """A column of the input, or a field inside structs, that an option names.

    `name` is the text in the option (`a.b`), `path` the names in that text (`a`, `b`).
    """

    name: str
    path: tuple[str, ...]
    type: DataType

    @property
    def is_top_level(self) -> bool:
        """Whether the field is a column of the input, not a field inside a struct."""
        return len(self.path) == 1

    @property
    def column(self) -> Column:
        """A Spark expression for the value of the field."""
        return F.col(".".join(f"`{part.replace('`', '``')}`" for part in self.path))


def find_field(schema: StructType, name: str, *, option: str) -> Field:
    """Return the column or struct field of the input with this name.

    Args:
        name: the name of a column, or a path through structs such as `a.b`.
        option: the option that names the field, for error messages.

    Raises:
        SchemaError: there is no such field, or two columns have the name.
    """
    match = next(_find_paths(schema, name), None)
    if match is None:
        raise _missing_field(schema, name, option)
    path, type_ = match
    if schema.names.count(path[0]) > 1:
        raise SchemaError(f"{option}={name}: the input has more than one column {path[0]!r}. Fix: rename or drop one.")
    return Field(name, path, type_)


def _find_paths(struct: StructType, name: str) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Yield (path, type) of every column or struct field that `name` may mean.

    A top-level column with dots in its name comes first.
    """
    for field in struct.fields:
        if field.name == name:
            yield (field.name,), field.dataType
    for field in struct.fields:
        if name.startswith(f"{field.name}.") and isinstance(field.dataType, StructType):
            for path, type_ in _find_paths(field.dataType, name[len(field.name) + 1 :]):
                yield (field.name, *path), type_


def _missing_field(schema: StructType, name: str, option: str) -> SchemaError:
    """Return the SchemaError about a field that the input lacks. It lists the nearest names, or the columns if none is near."""
    known = list(_list_names(schema))
    by_lower_case = {known_name.lower(): known_name for known_name in known}
    near = get_close_matches(name.lower(), by_lower_case, n=3)
    if near:
        hint = f"Nearest: {', '.join(repr(by_lower_case[near_name]) for near_name in near)}."
    else:
        hint = f"Columns: {', '.join(known[:_MOST_LISTED])}{', ...' if len(known) > _MOST_LISTED else ''}."
    return SchemaError(f"{option}={name}: the input has no column {name!r} (names are compared exactly). {hint}")


def _list_names(struct: StructType, prefix: str = "") -> Iterator[str]:
    """Yield the names of all fields of a struct. A field inside a nested struct is named by its path, such as `a.b`.

    Args:
        prefix: the path of the struct, with a dot at the end; empty for the top level.
    """
    for field in struct.fields:
        yield prefix + field.name
        if isinstance(field.dataType, StructType):
            yield from _list_names(field.dataType, f"{prefix}{field.name}.")

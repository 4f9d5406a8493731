"""The history of a table's columns, which Hudi's full schema evolution keeps in `.hoodie/.schema`.

Each column has a number there that stays the same when the column is renamed. Penstock finds columns in files by name, so it
refuses a table with a renamed or dropped column: rows of older files would have nulls, or the values of a dropped column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from penstock.errors import CorruptFile, Unsupported
from penstock.storage import Storage, join
from penstock.timeline.store import FOLDER

HISTORY = ".schema"
_SUFFIX = ".schemacommit"


def has_column_history(storage: Storage, base_path: str) -> bool:
    """Whether the table has a history of its columns, complete or begun."""
    return any(_SUFFIX in file.name for file in storage.list(join(base_path, FOLDER, HISTORY)))


def check_columns_keep_names(storage: Storage, base_path: str, as_of: str | None = None) -> None:
    """Raise an error if a column of the table has had another name, or was dropped.

    A dropped column is refused because its values would come back if a column of that name is added. Not every commit of Hudi
    says that the table has a history, so this function looks for its files.

    Args:
        as_of: an instant time. Changes of columns after it do not count; None: all count.

    Raises:
        Unsupported: a column was renamed or dropped.
        CorruptFile: the history cannot be read.
    """
    schemas = _read_newest_history(storage, base_path)
    if as_of is not None:
        schemas = [schema for schema in schemas if _version(schema) <= int(as_of)]
    names_now: dict[int, str] = {}
    for schema in schemas[:1]:
        names_now = {number: name for name, number in _list_columns(schema, "")}
    for schema in schemas[1:]:
        for name, number in _list_columns(schema, ""):
            name_now = names_now.get(number)
            if name_now is None:
                raise _refusal(base_path, f"column '{name}' was dropped")
            if name_now != name:
                raise _refusal(base_path, f"column '{name_now}' was '{name}' before")


def _version(schema: dict[str, Any]) -> int:
    """Return the instant time at which a schema of the history began, as a number; 0 for the first one."""
    return int(schema.get("version_id", schema.get("version-id", 0)))


def _refusal(base_path: str, reason: str) -> Unsupported:
    """Return the error for a table whose columns must be found by their numbers."""
    return Unsupported(
        f"{base_path} has a column that Hudi's full schema evolution changed ({reason}), and Penstock finds the columns of older "
        "files by name: use Hudi for this table, or write its rows to a new table with Hudi"
    )


def _read_newest_history(storage: Storage, base_path: str) -> list[dict[str, Any]]:
    """Return the schemas in the newest complete file of the history, newest schema first; empty if there is no such file."""
    folder = join(base_path, FOLDER, HISTORY)
    names = [file.name for file in storage.list(folder) if file.name.endswith(_SUFFIX)]
    if not names:
        return []
    newest = max(names)
    try:
        schemas: list[dict[str, Any]] = json.loads(storage.read(join(folder, newest)))["schemas"]
        return schemas
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFile(f"{FOLDER}/{HISTORY}/{newest} of {base_path} is not a history of schemas: {e}") from e


def _list_columns(record: dict[str, Any], prefix: str) -> Iterator[tuple[str, int]]:
    """Yield (name, number) of each column of a record and of the records inside it. The name of an inner column is `outer.inner`.

    The elements of arrays, and the keys and values of maps, have numbers too. They have no name that could change.
    """
    for column in record["fields"]:
        name = prefix + column["name"]
        yield name, column["id"]
        yield from _list_inner(column["type"], f"{name}.")


def _list_inner(kind: Any, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield (name, number) of each column of the records inside a type: a record, or an array or map of records."""
    if not isinstance(kind, dict):
        return
    if kind["type"] == "record":
        yield from _list_columns(kind, prefix)
    elif kind["type"] == "array":
        yield from _list_inner(kind["element"], f"{prefix}element.")
    elif kind["type"] == "map":
        yield from _list_inner(kind["value"], f"{prefix}value.")

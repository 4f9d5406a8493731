"""How the result or the error of a kernel travels from a Spark worker to the driver: as one line of JSON.

A kernel returns frozen dataclasses, or lists and tuples of them, or plain values. A `PenstockError` travels as its name and
message and is raised again on the driver: the user sees that error and not a worker's traceback, and Spark does not retry a task
that cannot succeed. Results are never pickled, because a pickle can run code when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from penstock import errors
from penstock.errors import PenstockError


def encode_results(work: Callable[[], Iterable[Any]]) -> list[str]:
    """Run `work` and return its results as texts, or one text that holds its error."""
    try:
        return [json.dumps({"ok": result}, default=asdict) for result in work()]
    except PenstockError as e:
        return [json.dumps({"error": type(e).__name__, "message": str(e)})]


def decode_result(text: str, returns: Any) -> Any:
    """Return the result in a text as a value of type `returns`. Raise the error if the text holds one."""
    answer = json.loads(text)
    if "error" in answer:
        raise _make_error(answer["error"], answer["message"])
    return from_json(answer["ok"], returns)


def from_json(value: Any, kind: Any) -> Any:
    """Return a JSON value as a dataclass, a list or tuple of one type, or None. Values of other types are returned unchanged."""
    if isinstance(kind, type) and is_dataclass(kind):
        types = _field_types(kind)
        fields = {name: from_json(field, types[name]) for name, field in value.items()}
        return kind(**fields)
    container = get_origin(kind)
    if container is Union or container is UnionType:  # of one type and None
        (kind,) = (member for member in get_args(kind) if member is not type(None))
        return None if value is None else from_json(value, kind)
    if container is list or container is tuple:
        item_type = get_args(kind)[0]
        return container(from_json(item, item_type) for item in value)
    return value


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _make_error(name: str, message: str) -> PenstockError:
    """Return the error of this name. An unknown name is that of an error class of another version of Penstock."""
    kind: type[PenstockError] = getattr(errors, name, PenstockError)
    return kind(message)

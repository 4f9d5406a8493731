"""Sends the results or the error of a kernel from a Spark worker to the driver, as JSON.

A kernel returns frozen dataclasses, lists or tuples of them, or plain values. A `PenstockError` is sent as class name and
message, and raised again on the driver. So the user sees that error instead of a worker's traceback, and Spark does not retry a
task that cannot succeed. Results are never pickled, because reading a pickle can run code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from penstock import errors
from penstock.errors import PenstockError


def encode_results(work: Callable[[], Iterable[Any]]) -> list[str]:
    """Run `work`; return one JSON string per result. If `work` raises a `PenstockError`, return one string with that error.

    Args:
        work: a function without arguments that returns the results.
    """
    try:
        return [json.dumps({"ok": result}, default=_fields_by_name) for result in work()]
    except PenstockError as e:
        return [json.dumps({"error": type(e).__name__, "message": str(e)})]


def _fields_by_name(result: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name. The JSON encoder calls this again for values that are dataclasses."""
    kind: Any = type(result)
    return {name: getattr(result, name) for name in _field_names(kind)}


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in fields(kind))


def decode_result(text: str, returns: Any) -> Any:
    """Decode one JSON string that `encode_results` returned. If the string holds an error, raise that error.

    Args:
        returns: the type of the result, for example a dataclass.
    """
    answer = json.loads(text)
    if "error" in answer:
        raise _make_error(answer["error"], answer["message"])
    return from_json(answer["ok"], returns)


def from_json(value: Any, kind: Any) -> Any:
    """Convert a parsed JSON value to the type `kind`. The conversion may change dicts inside the value.

    Supported are a dataclass, a list or tuple whose items have one type, and each of these `| None`. For any other type the value
    is returned unchanged.
    """
    convert = _converter(kind)
    return convert(value) if convert else value


@cache
def _converter(kind: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts a parsed JSON value to a type; None if the value stays as it is.

    The type is examined once: a write to thousands of partitions returns thousands of results.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass_converter(kind)
    container = get_origin(kind)
    if container is Union or container is UnionType:  # of one type and None
        (member,) = (member for member in get_args(kind) if member is not type(None))
        convert = _converter(member)
        return None if convert is None else lambda value: None if value is None else convert(value)
    if container is list or container is tuple:
        convert_item = _converter(get_args(kind)[0])
        if convert_item is None:
            return container
        return lambda value: container(map(convert_item, value))
    return None


def _dataclass_converter(kind: Any) -> Callable[[dict[str, Any]], Any]:
    """Return a function that builds an object of the dataclass `kind` from a dict of its fields, as parsed from JSON."""
    types = get_type_hints(kind)
    converters = {field.name: convert for field in fields(kind) if (convert := _converter(types[field.name]))}

    def make(value: dict[str, Any]) -> Any:
        for name, convert in converters.items():
            if name in value:
                value[name] = convert(value[name])
        return kind(**value)

    return make


def _make_error(name: str, message: str) -> PenstockError:
    """Return an error of the class `name` in `penstock.errors`; a plain `PenstockError` if there is no class of that name."""
    kind: type[PenstockError] = getattr(errors, name, PenstockError)
    return kind(message)

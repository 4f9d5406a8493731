"""Oracle GoldenGate's JSON changes as rows that `Masked` merges.

A change has `op_type` I, U or D, `pos`, and its columns under `after`, of which an update may carry only the changed ones;
`before` may be there or not. A column that `after` lacks is absent, one that it has as null is null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.errors import SchemaError
from penstock.merge.masked import MASK, Masked

OPERATION, POSITION = "op_type", "pos"
#: Digits of a position; shorter ones are filled up, so that positions compare as texts.
_POSITION_DIGITS = 20
_OPERATIONS = ("I", "U", "D")


def ogg_merger() -> Masked:
    """How rows of `ogg_rows` are merged: by position, absent columns keep their values."""
    return Masked(POSITION, MASK, OPERATION)


def ogg_schema(schema: pa.Schema) -> pa.Schema:
    """A table's columns and, behind them, those that say what each row is."""
    more = [(OPERATION, pa.string()), (POSITION, pa.string()), (MASK, pa.list_(pa.field("element", pa.string())))]
    return pa.schema([*schema, *(pa.field(name, kind) for name, kind in more if name not in schema.names)])


def ogg_rows(changes: pa.Array | pa.ChunkedArray, schema: pa.Schema, *, ignore_unknown: bool = False) -> pa.Table:
    """Rows of `ogg_schema(schema)` from JSON texts, one a change. Names of columns match in any case.

    Values of `before` fill columns that an update lacks, for the case that its key is not stored; they count as absent.

    Args:
        schema: the table's columns, with their types.
        ignore_unknown: drop columns that the table does not have.

    Raises:
        SchemaError: no JSON, an unknown operation, a change without its columns or position, an unknown column, or a
            value that does not fit its column's type.
    """
    # JSON is the one place where "absent" can be told from null, and Arrow's reader does not tell: hence row by row.
    parsed = [_parsed(text) for text in changes.to_pylist()]
    columns = [name for name in schema.names if name not in (OPERATION, POSITION, MASK)]
    spelled = {name.lower(): name for name in columns}
    values: dict[str, list[Any]] = {name: [] for name in columns}
    supplied: list[list[str] | None] = []
    for change in parsed:
        operation = change[OPERATION]
        after = _named(change.get("after") or {}, spelled, ignore_unknown)
        before = _named(change.get("before") or {}, spelled, ignore_unknown)
        row = {} if operation == "I" else dict(before)
        row.update(after)
        for name in columns:
            values[name].append(row.get(name))
        supplied.append([name for name in columns if name in after] if operation == "U" else None)
    full = ogg_schema(schema)
    values[OPERATION] = [change[OPERATION] for change in parsed]
    values[POSITION] = [change[POSITION] for change in parsed]
    values[MASK] = supplied
    return pa.table([_column(values[field.name], field) for field in full], schema=full)


def _parsed(text: str | None) -> dict[str, Any]:
    """One change, checked."""
    try:
        change = json.loads(text or "", parse_float=Decimal)
    except ValueError as e:
        raise SchemaError(f"not a GoldenGate change: {(text or '')[:200]!r} is no JSON ({e})") from e
    if not isinstance(change, dict):
        raise SchemaError(f"not a GoldenGate change: {(text or '')[:200]!r} is no JSON object")
    operation = str(change.get(OPERATION, "")).upper()
    if operation not in _OPERATIONS:
        raise SchemaError(f"{OPERATION} is {change.get(OPERATION)!r} in {text!r}; known are I, U and D")
    if change.get(POSITION) is None:
        raise SchemaError(f"a GoldenGate change has no {POSITION!r}, which tells which change is newer: {text!r}")
    if not change.get("before" if operation == "D" else "after") and not (operation == "D" and change.get("after")):
        raise SchemaError(f"a GoldenGate change of type {operation} has no columns: {text!r}")
    change[OPERATION] = operation
    change[POSITION] = str(change[POSITION]).zfill(_POSITION_DIGITS)
    return change


def _named(values: dict[str, Any], spelled: dict[str, str], ignore_unknown: bool) -> dict[str, Any]:
    """Values by the table's spelling of their columns."""
    unknown = [name for name in values if name.lower() not in spelled]
    if unknown and not ignore_unknown:
        raise SchemaError(
            f"a GoldenGate change has the column {unknown[0]!r}, which the table lacks; add it, or ignore unknown ones"
        )
    return {spelled[name.lower()]: value for name, value in values.items() if name.lower() in spelled}


def _column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Values of JSON as the column's type; numbers and times may come as texts."""
    kind = field.type
    try:
        if pa.types.is_nested(kind):
            return pa.array(values, kind)
        if any(isinstance(v, (str, Decimal)) for v in values):
            return pa.array([None if v is None else _text(v) for v in values], pa.string()).cast(kind)
        return (
            pa.array(values, kind)
            if not pa.types.is_string(kind)
            else pa.array([None if v is None else _text(v) for v in values])
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as e:
        raise SchemaError(f"a GoldenGate change holds a value that does not fit column {field.name!r} ({kind}): {e}") from e


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (bool, dict, list)) else str(value)

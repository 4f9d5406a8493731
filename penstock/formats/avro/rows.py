"""Avro records one by one, with fastavro: for blocks too small or too uneven to go by columns (`avro_columns`).

Kernel. Gives the same table as the decoder by columns, and the same errors.
"""

from __future__ import annotations

import functools
import io
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.errors import CorruptFile
from penstock.formats.avro.layout import (
    Choice,
    Digits,
    Entries,
    Fields,
    Flag,
    Items,
    Maybe,
    Number,
    Plain,
    Plan,
    Sized,
    Wire,
    plan_of,
)

try:
    import fastavro
except ImportError:  # a worker may do without: all goes by columns then
    fastavro = None  # type: ignore[assignment]


def can_read_rows(plan: Plan) -> bool:
    """Whether fastavro is there and takes the schema: it knows names of ASCII letters only."""
    return _parsed(plan.text) is not None


def decode_rows(buffer: pa.Buffer, starts: Any, ends: Any, plan: Plan, target: pa.Schema) -> pa.Table:
    """The records that lie at these places, with the columns of `target`.

    Raises:
        CorruptFile: a record is not one of this schema.
    """
    parsed = _parsed(plan.text)
    stream = io.BytesIO(buffer)
    rows = []
    try:
        for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            stream.seek(start)
            rows.append(fastavro.schemaless_reader(stream, parsed))
            if stream.tell() != end:
                raise CorruptFile(f"record {number} of an Avro block does not end where its length says")
        table = pa.Table.from_pylist(rows, target)
        table.validate(full=True)
        return table
    except CorruptFile:
        raise
    except Exception as cause:  # fastavro has no error of its own: wrong bytes surface as whatever broke
        raise CorruptFile(f"not a record of its schema: {cause or type(cause).__name__}") from cause


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    record = plan_of(text).record
    return fastavro.parse_schema(_spelled(record, count())) if fastavro is not None and _is_ascii(record) else None


def _is_ascii(wire: Wire) -> bool:
    match wire:
        case Fields(names=names, fields=fields):
            return all(name.isascii() for name in names) and all(_is_ascii(field) for field in fields)
        case Items(item=inner) | Entries(value=inner) | Maybe(value=inner):
            return _is_ascii(inner)
        case Choice(symbols=symbols):
            return all(symbol.isascii() for symbol in symbols)
    return True


def _spelled(wire: Wire, names: Any) -> Any:
    """The schema again, without logical types but decimals: Arrow makes dates and moments from their numbers faster."""
    match wire:
        case Flag():
            return "boolean"
        case Number(bits=bits):
            return "int" if bits == 32 else "long"
        case Plain(arrow=arrow, size=size):
            if pa.types.is_floating(arrow):
                return "float" if size == 4 else "double"
            return {"type": "fixed", "name": f"n{next(names)}", "size": size}
        case Sized(arrow=arrow):
            return "string" if pa.types.is_string(arrow) else "bytes"
        case Digits(arrow=arrow, size=size):
            logical = {"logicalType": "decimal", "precision": arrow.precision, "scale": arrow.scale}
            return {"type": "bytes", **logical} if size is None else {**_fixed(names, size), **logical}
        case Choice(symbols=symbols):
            return {"type": "enum", "name": f"n{next(names)}", "symbols": list(symbols)}
        case Items(item=item):
            return {"type": "array", "items": _spelled(item, names)}
        case Entries(value=value):
            return {"type": "map", "values": _spelled(value, names)}
        case Fields():
            fields = [{"name": name, "type": _spelled(field, names)} for name, field in zip(wire.names, wire.fields, strict=True)]
            return {"type": "record", "name": f"n{next(names)}", "fields": fields}
        case Maybe(null_at=None):
            return [_spelled(wire.value, names)]
        case Maybe(null_at=null_at):
            value = _spelled(wire.value, names)
            return ["null", value] if null_at == 0 else [value, "null"]


def _fixed(names: Any, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": f"n{next(names)}", "size": size}

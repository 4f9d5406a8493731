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
    ArrayNode,
    AvroLayout,
    BooleanNode,
    DecimalNode,
    EnumNode,
    FixedNode,
    IntegerNode,
    MapNode,
    Node,
    RecordNode,
    SizedNode,
    UnionNode,
    compile_layout,
)

try:
    import fastavro
except ImportError:  # a worker may do without: all goes by columns then
    fastavro = None  # type: ignore[assignment]


def can_read_rows(layout: AvroLayout) -> bool:
    """Whether fastavro is there and takes the schema: it knows names of ASCII letters only."""
    return _parsed(layout.text) is not None


def decode_rows(buffer: pa.Buffer, starts: Any, ends: Any, layout: AvroLayout, target: pa.Schema) -> pa.Table:
    """The records that lie at these places, with the columns of `target`.

    Raises:
        CorruptFile: a record is not one of this schema.
    """
    parsed = _parsed(layout.text)
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
    record = compile_layout(text).record
    return fastavro.parse_schema(_spelled(record, count())) if fastavro is not None and _is_ascii(record) else None


def _is_ascii(node: Node) -> bool:
    match node:
        case RecordNode(names=names, fields=fields):
            return all(name.isascii() for name in names) and all(_is_ascii(field) for field in fields)
        case ArrayNode(item=inner) | MapNode(value=inner) | UnionNode(value=inner):
            return _is_ascii(inner)
        case EnumNode(symbols=symbols):
            return all(symbol.isascii() for symbol in symbols)
    return True


def _spelled(node: Node, names: Any) -> Any:
    """The schema again, without logical types but decimals: Arrow makes dates and moments from their numbers faster."""
    match node:
        case BooleanNode():
            return "boolean"
        case IntegerNode(bits=bits):
            return "int" if bits == 32 else "long"
        case FixedNode(arrow=arrow, size=size):
            if pa.types.is_floating(arrow):
                return "float" if size == 4 else "double"
            return {"type": "fixed", "name": f"n{next(names)}", "size": size}
        case SizedNode(arrow=arrow):
            return "string" if pa.types.is_string(arrow) else "bytes"
        case DecimalNode(arrow=arrow, size=size):
            logical = {"logicalType": "decimal", "precision": arrow.precision, "scale": arrow.scale}
            return {"type": "bytes", **logical} if size is None else {**_fixed(names, size), **logical}
        case EnumNode(symbols=symbols):
            return {"type": "enum", "name": f"n{next(names)}", "symbols": list(symbols)}
        case ArrayNode(item=item):
            return {"type": "array", "items": _spelled(item, names)}
        case MapNode(value=value):
            return {"type": "map", "values": _spelled(value, names)}
        case RecordNode():
            fields = [{"name": name, "type": _spelled(field, names)} for name, field in zip(node.names, node.fields, strict=True)]
            return {"type": "record", "name": f"n{next(names)}", "fields": fields}
        case UnionNode(null_at=None):
            return [_spelled(node.value, names)]
        case UnionNode(null_at=null_at):
            value = _spelled(node.value, names)
            return ["null", value] if null_at == 0 else [value, "null"]


def _fixed(names: Any, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": f"n{next(names)}", "size": size}

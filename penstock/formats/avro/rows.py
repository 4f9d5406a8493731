"""Decodes Avro records one by one with fastavro.

`block.py` uses this module for blocks on which `decode.py` is slower: small blocks, and blocks with lists of very uneven lengths.
Both return the same tables and raise the same errors. Workers without fastavro use only `decode.py`.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
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
except ImportError:  # optional on Spark workers
    fastavro = None  # type: ignore[assignment]


def can_read_rows(layout: AvroLayout) -> bool:
    """Whether `decode_rows` can decode records of the layout: fastavro is installed, and all names are ASCII."""
    return _parse_layout(layout.text) is not None


def decode_rows(buffer: pa.Buffer, starts: Any, ends: Any, layout: AvroLayout, target: pa.Schema) -> pa.Table:
    """Decode records one by one with fastavro; return the columns of `target`.

    Args:
        starts: the byte offsets in `buffer` at which records begin.
        ends: the byte offsets at which they end.
        layout: the layout of the schema that the records were written with.

    Raises:
        CorruptFile: a record is malformed or does not fit the schema.
    """
    parsed = _parse_layout(layout.text)
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
    except Exception as cause:  # fastavro has no error class: malformed bytes raise whatever fails first
        raise CorruptFile(f"not a record of its schema: {cause or type(cause).__name__}") from cause


@functools.lru_cache(maxsize=256)
def _parse_layout(text: str) -> Any:
    """Return a schema, given as JSON, as parsed by fastavro; None if fastavro is not installed, or a name is not ASCII."""
    record = compile_layout(text).record
    if fastavro is None or not _is_ascii(record):
        return None
    return fastavro.parse_schema(_to_avro(record, count()))


def _is_ascii(node: Node) -> bool:
    """Whether all names of fields and enum symbols in a layout are ASCII."""
    match node:
        case RecordNode(names=names, fields=fields):
            return all(name.isascii() for name in names) and all(_is_ascii(field) for field in fields)
        case ArrayNode(item=inner) | MapNode(value=inner) | UnionNode(value=inner):
            return _is_ascii(inner)
        case EnumNode(symbols=symbols):
            return all(symbol.isascii() for symbol in symbols)
    return True


def _to_avro(node: Node, numbers: Iterator[int]) -> Any:
    """Convert a layout back to an Avro schema for fastavro. Named types get the names n0, n1 and so on.

    Logical types other than decimal are left out, because Arrow converts dates, times and timestamps faster than fastavro.

    Args:
        numbers: a counter for the names.
    """
    match node:
        case BooleanNode():
            return "boolean"
        case IntegerNode(bits=bits):
            return "int" if bits == 32 else "long"
        case FixedNode(arrow=arrow, size=size):
            if pa.types.is_floating(arrow):
                return "float" if size == 4 else "double"
            return {"type": "fixed", "name": f"n{next(numbers)}", "size": size}
        case SizedNode(arrow=arrow):
            return "string" if pa.types.is_string(arrow) else "bytes"
        case DecimalNode(arrow=arrow, size=size):
            logical = {"logicalType": "decimal", "precision": arrow.precision, "scale": arrow.scale}
            if size is None:
                return {"type": "bytes", **logical}
            return {"type": "fixed", "name": f"n{next(numbers)}", "size": size, **logical}
        case EnumNode(symbols=symbols):
            return {"type": "enum", "name": f"n{next(numbers)}", "symbols": list(symbols)}
        case ArrayNode(item=item):
            return {"type": "array", "items": _to_avro(item, numbers)}
        case MapNode(value=value):
            return {"type": "map", "values": _to_avro(value, numbers)}
        case RecordNode(names=names, fields=nodes):
            fields = [{"name": name, "type": _to_avro(field, numbers)} for name, field in zip(names, nodes, strict=True)]
            return {"type": "record", "name": f"n{next(numbers)}", "fields": fields}
        case UnionNode(value=inner, null_at=null_at):
            value = _to_avro(inner, numbers)
            if null_at is None:
                return [value]
            return ["null", value] if null_at == 0 else [value, "null"]

"""How the values of an Avro schema lie in bytes: the layout that the decoder and the encoder of log blocks walk.

Kernel: an Avro schema in, a tree of frozen values out. The schema package says what a column *is* (`penstock.schema`);
this says how it is *spelled*: which side of a union is null, whether a decimal is fixed or bytes, what an enum's numbers
mean. Every node carries the Arrow type that its values have in a table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.schema import avro_text, avro_to_arrow
from penstock.schema.avro import Avro, parse_avro


@dataclass(frozen=True)
class BooleanNode:
    """One byte, 0 or 1."""

    arrow: Any


@dataclass(frozen=True)
class IntegerNode:
    """An int or a long, zigzag, seven bits to a byte; also dates and moments."""

    arrow: Any
    bits: int


@dataclass(frozen=True)
class FixedNode:
    """Bytes of one length: float, double, fixed."""

    arrow: Any
    size: int


@dataclass(frozen=True)
class SizedNode:
    """A length and as many bytes: string, bytes."""

    arrow: Any


@dataclass(frozen=True)
class DecimalNode:
    """A decimal: the whole number, big end first; `size` bytes, or with its own length."""

    arrow: Any
    size: int | None


@dataclass(frozen=True)
class EnumNode:
    """An enum: the number of its symbol."""

    arrow: Any
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class ArrayNode:
    """An array: counted runs of items, ended by an empty run."""

    arrow: Any
    item: Node


@dataclass(frozen=True)
class MapNode:
    """A map: as an array of pairs of key and value."""

    arrow: Any
    value: Node


@dataclass(frozen=True)
class RecordNode:
    """A record: its fields, one after the other."""

    arrow: Any
    names: tuple[str, ...]
    fields: tuple[Node, ...]


@dataclass(frozen=True)
class UnionNode:
    """A union: the number of the branch, then its value. `null_at` is None in a union without null."""

    arrow: Any
    value: Node
    null_at: int | None
    value_at: int


Node = BooleanNode | IntegerNode | FixedNode | SizedNode | DecimalNode | EnumNode | ArrayNode | MapNode | RecordNode | UnionNode

_PLAIN_SIZE = {"float": 4, "double": 8}


@dataclass(frozen=True)
class AvroLayout:
    """One schema, ready to be walked."""

    record: RecordNode
    schema: pa.Schema
    text: str


def compile_layout(avro: Avro) -> AvroLayout:
    """The layout of a record's schema.

    Raises:
        SchemaError: it is no Avro schema of a record, or has a type that a table cannot have.
    """
    return _plan_of_text(avro if isinstance(avro, str) else avro_text(avro))


@functools.lru_cache(maxsize=256)
def _plan_of_text(text: str) -> AvroLayout:
    schema = avro_to_arrow(text)
    record = _Compiler().node(parse_avro(text), "", pa.struct(list(schema)))
    assert isinstance(record, RecordNode)
    return AvroLayout(record, schema, text)


def min_size(node: Node) -> int:
    """How many bytes a value takes at least; bounds what a damaged count can claim."""
    match node:
        case FixedNode(size=size):
            return size
        case DecimalNode(size=size):
            return size or 1
        case RecordNode(fields=fields):
            return sum(min_size(field) for field in fields)
        case MapNode():
            return 1
    return 1


def constant_size(node: Node) -> int | None:
    """How many bytes every value takes, where that is one number."""
    match node:
        case BooleanNode():
            return 1
        case FixedNode(size=size) | DecimalNode(size=size):
            return size
        case RecordNode(fields=fields):
            sizes = [constant_size(field) for field in fields]
            return None if None in sizes else sum(size or 0 for size in sizes)
    return None


class _Compiler:
    """Compiles one schema, whose validity `avro_to_arrow` has seen to; remembers named types."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}

    def node(self, avro: Any, namespace: str, arrow: Any) -> Node:
        if isinstance(avro, list):
            return self._union(avro, namespace, arrow)
        if isinstance(avro, str):
            return self._named_or_primitive(avro, namespace, arrow)
        kind = avro["type"]
        if not isinstance(kind, str) or ("name" not in avro and kind not in _COMPLEX and "logicalType" not in avro):
            return self.node(kind, namespace, arrow)
        if "name" in avro:
            namespace = self._define(avro, namespace)
        match kind:
            case "record":
                return self._record(avro, namespace, arrow)
            case "array":
                return ArrayNode(arrow, self.node(avro["items"], namespace, arrow.value_type))
            case "map":
                return MapNode(arrow, self.node(avro["values"], namespace, arrow.item_type))
            case "enum":
                return EnumNode(arrow, tuple(avro["symbols"]))
            case "fixed":
                return DecimalNode(arrow, avro["size"]) if pa.types.is_decimal(arrow) else FixedNode(arrow, avro["size"])
            case "bytes" if pa.types.is_decimal(arrow):
                return DecimalNode(arrow, None)
        return self._named_or_primitive(kind, namespace, arrow)

    def _record(self, avro: Mapping[str, Any], namespace: str, arrow: Any) -> RecordNode:
        columns = avro["fields"]
        kinds = [arrow.field(at).type for at in range(arrow.num_fields)]
        fields = [self.node(column["type"], namespace, kind) for column, kind in zip(columns, kinds, strict=True)]
        return RecordNode(arrow, tuple(column["name"] for column in columns), tuple(fields))

    def _union(self, branches: list[Any], namespace: str, arrow: Any) -> Node:
        nulls = [at for at, branch in enumerate(branches) if branch in ("null", {"type": "null"})]
        value_at = next(at for at in range(len(branches)) if at not in nulls)
        return UnionNode(arrow, self.node(branches[value_at], namespace, arrow), nulls[0] if nulls else None, value_at)

    def _named_or_primitive(self, name: str, namespace: str, arrow: Any) -> Node:
        match name:
            case "boolean":
                return BooleanNode(arrow)
            case "int" | "long":
                return IntegerNode(arrow, 32 if name == "int" else 64)
            case "float" | "double":
                return FixedNode(arrow, _PLAIN_SIZE[name])
            case "string" | "bytes":
                return SizedNode(arrow)
        definition, inside = self._named[name if "." in name or not namespace else f"{namespace}.{name}"]
        return self.node(definition, inside, arrow)

    def _define(self, avro: Mapping[str, Any], namespace: str) -> str:
        """Remember a named type; give the namespace inside of it."""
        name, space = str(avro["name"]), avro.get("namespace", namespace)
        full_name = name if "." in name or not space else f"{space}.{name}"
        self._named[full_name] = (avro, namespace)
        return full_name.rpartition(".")[0]


_COMPLEX = ("record", "array", "map", "enum", "fixed")

"""`AvroLayout`, the byte layout of an Avro schema: a tree of frozen nodes that the encoder and the decoders of log blocks follow.

`penstock.schema` converts a schema to *columns*. A layout describes how their values are *encoded*: which branch of a union is
null, whether a decimal is fixed or bytes, the symbols of an enum. Every node has the Arrow type of its values.
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
    """The layout of a boolean: one byte, 0 or 1."""

    arrow: Any


@dataclass(frozen=True)
class IntegerNode:
    """The layout of an int (32 bits), long (64 bits), date, time or timestamp: zigzag, seven bits per byte, low bits first."""

    arrow: Any
    bits: int


@dataclass(frozen=True)
class FixedNode:
    """The layout of a float, double or fixed: always `size` bytes."""

    arrow: Any
    size: int


@dataclass(frozen=True)
class SizedNode:
    """The layout of a string or bytes: the length, then that many bytes."""

    arrow: Any


@dataclass(frozen=True)
class DecimalNode:
    """The layout of a decimal: the unscaled number, big-endian, in `size` bytes. If `size` is None, the length comes first."""

    arrow: Any
    size: int | None


@dataclass(frozen=True)
class EnumNode:
    """The layout of an enum: the number of the symbol in `symbols`, as an int."""

    arrow: Any
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class ArrayNode:
    """The layout of an array: runs of items (Avro calls them blocks), each preceded by its item count. The count 0 is the end."""

    arrow: Any
    item: Node


@dataclass(frozen=True)
class MapNode:
    """The layout of a map with string keys, which is the layout of an array of (key, value) records."""

    arrow: Any
    value: Node


@dataclass(frozen=True)
class RecordNode:
    """The layout of a record: its fields in order, concatenated without separators."""

    arrow: Any
    names: tuple[str, ...]
    fields: tuple[Node, ...]


@dataclass(frozen=True)
class UnionNode:
    """The layout of a union of one type and perhaps null: the number of the branch, then the value.

    `null_at` is the branch of null, None if the union has no null; `value_at` is the branch of the value.
    """

    arrow: Any
    value: Node
    null_at: int | None
    value_at: int


Node = BooleanNode | IntegerNode | FixedNode | SizedNode | DecimalNode | EnumNode | ArrayNode | MapNode | RecordNode | UnionNode

_FLOATING_SIZE = {"float": 4, "double": 8}
_COMPLEX = ("record", "array", "map", "enum", "fixed")


@dataclass(frozen=True)
class AvroLayout:
    """The byte layout of one record schema.

    Attributes:
        record: the layout of the record, with the layouts of its fields.
        schema: the columns of the record in Arrow types.
        text: the Avro schema as JSON.
    """

    record: RecordNode
    schema: pa.Schema
    text: str


def compile_layout(avro: Avro) -> AvroLayout:
    """Build the byte layout of a record's Avro schema. Layouts are cached by the schema's JSON.

    Raises:
        SchemaError: `avro` is not the Avro schema of a record, or has a type that a table cannot have.
    """
    text = avro if isinstance(avro, str) else avro_text(avro)
    return _compile_text(text)


@functools.lru_cache(maxsize=256)
def _compile_text(text: str) -> AvroLayout:
    """Build the byte layout of a record's Avro schema given as JSON."""
    schema = avro_to_arrow(text)
    record = _Compiler().compile(parse_avro(text), "", pa.struct(list(schema)))
    assert isinstance(record, RecordNode)
    return AvroLayout(record, schema, text)


def min_size(node: Node) -> int:
    """Return the fewest bytes that a value of this layout can take.

    The decoder rejects a damaged list whose item count needs more bytes than the record has.
    """
    match node:
        case FixedNode(size=size):
            return size
        case DecimalNode(size=size):
            return size or 1
        case RecordNode(fields=fields):
            return sum(min_size(field) for field in fields)
    return 1


def constant_size(node: Node) -> int | None:
    """Return the number of bytes that every value of this layout takes; None if values may differ in size."""
    match node:
        case BooleanNode():
            return 1
        case FixedNode(size=size) | DecimalNode(size=size):
            return size
        case RecordNode(fields=fields):
            total = 0
            for field in fields:
                size = constant_size(field)
                if size is None:
                    return None
                total += size
            return total
    return None


class _Compiler:
    """Converts one Avro schema to layout nodes. Remembers named types, to which the schema may refer again by name."""

    def __init__(self) -> None:
        #: Full name of a type → its definition, and the namespace that encloses the definition.
        self._named: dict[str, tuple[Any, str]] = {}

    def compile(self, avro: Any, namespace: str, arrow: Any) -> Node:
        """Return the layout node of an Avro type whose values have the Arrow type `arrow`.

        Args:
            avro: the Avro type, as parsed JSON.
            namespace: the namespace for names without one.
        """
        if isinstance(avro, list):
            return self._union(avro, namespace, arrow)
        if isinstance(avro, str):
            return self._named_or_primitive(avro, namespace, arrow)
        kind = avro["type"]
        # {"type": T} without a name or a logical type only wraps T.
        if not isinstance(kind, str) or ("name" not in avro and kind not in _COMPLEX and "logicalType" not in avro):
            return self.compile(kind, namespace, arrow)
        if "name" in avro:
            namespace = self._define(avro, namespace)
        match kind:
            case "record":
                return self._record(avro, namespace, arrow)
            case "array":
                return ArrayNode(arrow, self.compile(avro["items"], namespace, arrow.value_type))
            case "map":
                return MapNode(arrow, self.compile(avro["values"], namespace, arrow.item_type))
            case "enum":
                return EnumNode(arrow, tuple(avro["symbols"]))
            case "fixed" if pa.types.is_decimal(arrow):
                return DecimalNode(arrow, avro["size"])
            case "fixed":
                return FixedNode(arrow, avro["size"])
            case "bytes" if pa.types.is_decimal(arrow):
                return DecimalNode(arrow, None)
        return self._named_or_primitive(kind, namespace, arrow)

    def _record(self, avro: Mapping[str, Any], namespace: str, arrow: Any) -> RecordNode:
        """Return the layout node of an Avro record whose values have the Arrow struct type `arrow`.

        Args:
            avro: the JSON of the record.
            namespace: the namespace of the enclosing record, in which names are resolved.
        """
        names = []
        fields = []
        for number, column in enumerate(avro["fields"]):
            names.append(column["name"])
            fields.append(self.compile(column["type"], namespace, arrow.field(number).type))
        return RecordNode(arrow, tuple(names), tuple(fields))

    def _union(self, branches: list[Any], namespace: str, arrow: Any) -> Node:
        """Return the layout node of a union of one type and perhaps null, whose values have the Arrow type `arrow`.

        Args:
            branches: the JSON of the types in the union.
            namespace: the namespace of the enclosing record, in which names are resolved.
        """
        nulls = [number for number, branch in enumerate(branches) if branch in ("null", {"type": "null"})]
        value_at = next(number for number in range(len(branches)) if number not in nulls)
        value = self.compile(branches[value_at], namespace, arrow)
        return UnionNode(arrow, value, nulls[0] if nulls else None, value_at)

    def _named_or_primitive(self, name: str, namespace: str, arrow: Any) -> Node:
        """Return the layout node of a type given by its name: a primitive type, or a named type defined earlier in the schema.

        Args:
            namespace: the namespace of the enclosing record, in which the name is resolved.
            arrow: the Arrow type of the values.
        """
        match name:
            case "boolean":
                return BooleanNode(arrow)
            case "int":
                return IntegerNode(arrow, 32)
            case "long":
                return IntegerNode(arrow, 64)
            case "float" | "double":
                return FixedNode(arrow, _FLOATING_SIZE[name])
            case "string" | "bytes":
                return SizedNode(arrow)
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        definition, outer_namespace = self._named[full_name]
        return self.compile(definition, outer_namespace, arrow)

    def _define(self, avro: Mapping[str, Any], namespace: str) -> str:
        """Remember a named type (record, enum or fixed), because later parts of the schema may refer to it by name.

        Return the namespace that applies inside its definition.

        Args:
            avro: the JSON of the type.
            namespace: the namespace of the enclosing record, in which names are resolved.
        """
        name = str(avro["name"])
        own_namespace = avro.get("namespace", namespace)
        full_name = name if "." in name or not own_namespace else f"{own_namespace}.{name}"
        self._named[full_name] = (avro, namespace)
        return full_name.rpartition(".")[0]

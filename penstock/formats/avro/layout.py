"""How the values of an Avro schema lie in bytes: the plan that the decoder and the encoder of log blocks walk.

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

from penstock.schema import arrow_of_avro, avro_text
from penstock.schema.avro import Avro, record_of


@dataclass(frozen=True)
class Flag:
    """One byte, 0 or 1."""

    arrow: Any


@dataclass(frozen=True)
class Number:
    """An int or a long, zigzag, seven bits to a byte; also dates and moments."""

    arrow: Any
    bits: int


@dataclass(frozen=True)
class Plain:
    """Bytes of one length: float, double, fixed."""

    arrow: Any
    size: int


@dataclass(frozen=True)
class Sized:
    """A length and as many bytes: string, bytes."""

    arrow: Any


@dataclass(frozen=True)
class Digits:
    """A decimal: the whole number, big end first; `size` bytes, or with its own length."""

    arrow: Any
    size: int | None


@dataclass(frozen=True)
class Choice:
    """An enum: the number of its symbol."""

    arrow: Any
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Items:
    """An array: counted runs of items, ended by an empty run."""

    arrow: Any
    item: Wire


@dataclass(frozen=True)
class Entries:
    """A map: as an array of pairs of key and value."""

    arrow: Any
    value: Wire


@dataclass(frozen=True)
class Fields:
    """A record: its fields, one after the other."""

    arrow: Any
    names: tuple[str, ...]
    fields: tuple[Wire, ...]


@dataclass(frozen=True)
class Maybe:
    """A union: the number of the branch, then its value. `null_at` is None in a union without null."""

    arrow: Any
    value: Wire
    null_at: int | None
    value_at: int


Wire = Flag | Number | Plain | Sized | Digits | Choice | Items | Entries | Fields | Maybe

_PLAIN_SIZE = {"float": 4, "double": 8}


@dataclass(frozen=True)
class Plan:
    """One schema, ready to be walked."""

    record: Fields
    schema: pa.Schema
    text: str


def plan_of(avro: Avro) -> Plan:
    """The plan of a record's schema.

    Raises:
        SchemaError: it is no Avro schema of a record, or has a type that a table cannot have.
    """
    return _plan_of_text(avro if isinstance(avro, str) else avro_text(avro))


@functools.lru_cache(maxsize=256)
def _plan_of_text(text: str) -> Plan:
    schema = arrow_of_avro(text)
    record = _Compiler().wire(record_of(text), "", pa.struct(list(schema)))
    assert isinstance(record, Fields)
    return Plan(record, schema, text)


def least_bytes(wire: Wire) -> int:
    """How many bytes a value takes at least; bounds what a damaged count can claim."""
    match wire:
        case Plain(size=size):
            return size
        case Digits(size=size):
            return size or 1
        case Fields(fields=fields):
            return sum(least_bytes(field) for field in fields)
        case Entries():
            return 1
    return 1


def same_bytes(wire: Wire) -> int | None:
    """How many bytes every value takes, where that is one number."""
    match wire:
        case Flag():
            return 1
        case Plain(size=size) | Digits(size=size):
            return size
        case Fields(fields=fields):
            sizes = [same_bytes(field) for field in fields]
            return None if None in sizes else sum(size or 0 for size in sizes)
    return None


class _Compiler:
    """Compiles one schema, whose validity `arrow_of_avro` has seen to; remembers named types."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}

    def wire(self, avro: Any, namespace: str, arrow: Any) -> Wire:
        if isinstance(avro, list):
            return self._union(avro, namespace, arrow)
        if isinstance(avro, str):
            return self._named_or_primitive(avro, namespace, arrow)
        kind = avro["type"]
        if not isinstance(kind, str) or ("name" not in avro and kind not in _COMPLEX and "logicalType" not in avro):
            return self.wire(kind, namespace, arrow)
        if "name" in avro:
            namespace = self._define(avro, namespace)
        match kind:
            case "record":
                return self._record(avro, namespace, arrow)
            case "array":
                return Items(arrow, self.wire(avro["items"], namespace, arrow.value_type))
            case "map":
                return Entries(arrow, self.wire(avro["values"], namespace, arrow.item_type))
            case "enum":
                return Choice(arrow, tuple(avro["symbols"]))
            case "fixed":
                return Digits(arrow, avro["size"]) if pa.types.is_decimal(arrow) else Plain(arrow, avro["size"])
            case "bytes" if pa.types.is_decimal(arrow):
                return Digits(arrow, None)
        return self._named_or_primitive(kind, namespace, arrow)

    def _record(self, avro: Mapping[str, Any], namespace: str, arrow: Any) -> Fields:
        columns = avro["fields"]
        kinds = [arrow.field(at).type for at in range(arrow.num_fields)]
        fields = [self.wire(column["type"], namespace, kind) for column, kind in zip(columns, kinds, strict=True)]
        return Fields(arrow, tuple(column["name"] for column in columns), tuple(fields))

    def _union(self, branches: list[Any], namespace: str, arrow: Any) -> Wire:
        nulls = [at for at, branch in enumerate(branches) if branch in ("null", {"type": "null"})]
        value_at = next(at for at in range(len(branches)) if at not in nulls)
        return Maybe(arrow, self.wire(branches[value_at], namespace, arrow), nulls[0] if nulls else None, value_at)

    def _named_or_primitive(self, name: str, namespace: str, arrow: Any) -> Wire:
        match name:
            case "boolean":
                return Flag(arrow)
            case "int" | "long":
                return Number(arrow, 32 if name == "int" else 64)
            case "float" | "double":
                return Plain(arrow, _PLAIN_SIZE[name])
            case "string" | "bytes":
                return Sized(arrow)
        definition, inside = self._named[name if "." in name or not namespace else f"{namespace}.{name}"]
        return self.wire(definition, inside, arrow)

    def _define(self, avro: Mapping[str, Any], namespace: str) -> str:
        """Remember a named type; give the namespace inside of it."""
        name, space = str(avro["name"]), avro.get("namespace", namespace)
        full_name = name if "." in name or not space else f"{space}.{name}"
        self._named[full_name] = (avro, namespace)
        return full_name.rpartition(".")[0]


_COMPLEX = ("record", "array", "map", "enum", "fixed")

"""Converts schemas between Avro and the model, Penstock's own classes for schemas (`schema/model.py`).

Commit files, footers, log blocks and `hoodie.properties` store schemas in Avro.

`avro_to_struct` accepts unions with null first or last, references to named types, enums (as strings), and decimals as bytes or
fixed. `struct_to_avro` follows Hudi's conventions. A schema that Hudi wrote becomes the same text again after both conversions,
down to the order of its JSON keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.errors import SchemaError
from penstock.schema.model import (
    STRING,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Path,
    Simple,
    Struct,
    Type,
    decimal,
    decimal_size,
    dotted,
)

Avro = Mapping[str, Any] | str
AvroRecord = dict[str, Any]

_PRIMITIVE = {"boolean", "int", "long", "float", "double", "string", "bytes"}
#: The Avro type that each logical type annotates.
_CARRIER = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
}


def parse_avro(avro: Avro) -> AvroRecord:
    """Return an Avro record schema as a dict. The argument may be JSON text or a mapping.

    Raises:
        SchemaError: the argument is not the Avro schema of a record.
    """
    try:
        record = json.loads(avro) if isinstance(avro, str) else avro
    except ValueError as cause:
        raise SchemaError(f"not an Avro schema: {cause}") from cause
    if not isinstance(record, Mapping) or record.get("type") != "record" or not isinstance(record.get("fields"), list):
        raise SchemaError("not the Avro schema of a record")
    return dict(record)


def avro_to_struct(avro: Avro) -> Struct:
    """Convert an Avro record schema to a `Struct`, Penstock's own form of a schema (`schema/model.py`).

    The schema may be JSON text or a mapping.

    Raises:
        SchemaError: the argument is not an Avro record schema, or has a type that a table cannot have.
    """
    try:
        return _Reader().record(parse_avro(avro), "", ())
    except (KeyError, TypeError, AttributeError) as cause:
        raise SchemaError(f"not an Avro schema: {cause!r}") from cause


def struct_to_avro(struct: Struct, full_name: str) -> AvroRecord:
    """Convert a `Struct` (`schema/model.py`) to the Avro schema of a record.

    Args:
        full_name: the namespace and name of the record, such as `hoodie.trips.trips_record`.
    """
    return _Writer().record(replace(struct, full_name=full_name), full_name)


def avro_text(avro: Avro) -> str:
    """Return an Avro schema as JSON text without spaces, as Hudi writes it to commit files, footers and `hoodie.properties`."""
    return json.dumps(parse_avro(avro), separators=(",", ":"), ensure_ascii=False)


def column_defaults(avro: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return (name, default) of each top-level column of an Avro schema whose default is a boolean, number or string.

    `OverwriteNonDefaultsWithLatestAvroPayload` uses them: where an incoming value equals the default, the stored value stays.
    """
    defaults = []
    for column in avro["fields"]:
        default = column.get("default")
        if isinstance(default, bool | int | float | str):
            defaults.append((column["name"], default))
    return tuple(defaults)


class _Reader:
    """Converts one Avro schema to the classes of `schema/model.py`.

    Avro defines a named type where it first occurs, and then refers to it by name. So this class remembers the named types of the
    schema.
    """

    def __init__(self) -> None:
        #: Named types by full name. None while the definition of a type is being read: a reference to it then is recursive.
        self._named: dict[str, Type | None] = {}

    def type(self, avro: Any, namespace: str, path: Path) -> Type:
        """Convert an Avro type to a type of `schema/model.py`.

        Args:
            avro: the JSON of the type.
            namespace: the namespace of the enclosing record, in which names are resolved.
            path: the path of the column, for error messages.

        Raises:
            SchemaError: the type is not an Avro type, or one that a Hudi table cannot have.
        """
        match avro:
            case str():
                return Simple(avro) if avro in _PRIMITIVE else self._find_named(avro, namespace, path)
            case {"type": "bytes" | "fixed", "logicalType": "decimal", "precision": int(precision)}:
                return self._define(avro, namespace, decimal(precision, avro.get("scale", 0), path))
            case {"type": str(carrier), "logicalType": str(logical)} if _CARRIER.get(logical) == carrier:
                return Simple(logical)
            case {"type": "record"}:
                return self.record(avro, namespace, path)
            case {"type": "array", "items": items}:
                return List(*self._type_and_nullable(items, namespace, (*path, "element")))
            case {"type": "map", "values": values}:
                return Map(*self._type_and_nullable(values, namespace, (*path, "value")))
            case {"type": "enum"}:
                return self._define(avro, namespace, STRING)
            case {"type": "fixed", "size": int(size)}:
                return self._define(avro, namespace, Fixed(size))
            case {"type": inner}:
                return self.type(inner, namespace, path)
        raise SchemaError(f"column {dotted(path)} has the type {avro!r}, which is not an Avro type")

    def record(self, avro: Mapping[str, Any], namespace: str, path: Path) -> Struct:
        """Convert an Avro record to a `Struct` (`schema/model.py`).

        Args:
            avro: the JSON of the record.
            namespace: the namespace of the enclosing record, in which names are resolved.
            path: the path of the column, for error messages.

        Raises:
            SchemaError: a field has a type that a Hudi table cannot have.
        """
        full_name = _full_name(avro, namespace)
        self._named[full_name] = None
        fields = []
        for column in avro["fields"]:
            kind, nullable = self._type_and_nullable(column["type"], full_name.rpartition(".")[0], (*path, column["name"]))
            fields.append(Field(column["name"], kind, nullable, column.get("doc") or None))
        struct = Struct(tuple(fields), full_name)
        self._named[full_name] = struct
        return struct

    def _type_and_nullable(self, avro: Any, namespace: str, path: Path) -> tuple[Type, bool]:
        """Convert an Avro type or its union with null; return (its type in `schema/model.py`, whether null is in the union).

        Args:
            avro: the JSON of the type.
            namespace: the namespace of the enclosing record, in which names are resolved.
            path: the path of the column, for error messages.

        Raises:
            SchemaError: the union has several types besides null, or a Hudi table cannot have the type.
        """
        if not isinstance(avro, list):
            return self.type(avro, namespace, path), False
        branches = [branch for branch in avro if branch not in ("null", {"type": "null"})]
        if len(branches) != 1:
            raise SchemaError(f"column {dotted(path)} is a union of {len(branches)} types; a table can hold one")
        return self.type(branches[0], namespace, path), len(branches) < len(avro)

    def _define(self, avro: Mapping[str, Any], namespace: str, kind: Type) -> Type:
        """Remember the type `kind` under the name of the Avro type `avro`, if it has one, for later references; return `kind`."""
        if "name" in avro:
            self._named[_full_name(avro, namespace)] = kind
        return kind

    def _find_named(self, name: str, namespace: str, path: Path) -> Type:
        """Return the type that an Avro schema refers to by its name.

        Args:
            namespace: the namespace of the enclosing record, in which the name is resolved.
            path: the path of the column, for the error message.

        Raises:
            SchemaError: the type is not defined before the reference, or contains itself.
        """
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        if full_name not in self._named:
            raise SchemaError(f"column {dotted(path)} has the type {name!r}, which the schema does not define")
        known = self._named[full_name]
        if known is None:
            raise SchemaError(f"column {dotted(path)} contains itself ({full_name}); a table cannot hold a recursive type")
        return known


def _full_name(avro: Mapping[str, Any], namespace: str) -> str:
    """Return the namespace and name of a named Avro type. `namespace` is that of the enclosing record."""
    name = str(avro["name"])
    space = avro.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


class _Writer:
    """Converts one `Struct` (`schema/model.py`) to Avro.

    A record that occurs twice is defined once, and then referred to by name.
    """

    def __init__(self) -> None:
        self._defined: dict[str, Struct] = {}

    def type(self, kind: Type, place: str) -> Any:
        """Return the Avro form of a type of `schema/model.py`.

        Args:
            place: `<full name of the parent record>.<field name>`. Named types inside the field get their names from it.
        """
        match kind:
            case Simple(name):
                return {"type": _CARRIER[name], "logicalType": name} if name in _CARRIER else name
            case Decimal(precision, scale):
                fixed = {"type": "fixed", "name": "fixed", "namespace": place, "size": decimal_size(precision)}
                return {**fixed, "logicalType": "decimal", "precision": precision, "scale": scale}
            case Fixed(size):
                return {"type": "fixed", "name": "fixed", "namespace": place, "size": size}
            case List(element, nullable):
                return {"type": "array", "items": self._nullable(element, nullable, place)}
            case Map(value, nullable):
                return {"type": "map", "values": self._nullable(value, nullable, place)}
            case Struct(full_name=name):
                return name if name and self._defined.get(name) == kind else self.record(kind, place)

    def record(self, struct: Struct, place: str) -> AvroRecord:
        """Return the Avro record schema for a struct.

        The record's name is the struct's `full_name`. If `full_name` is None, or another record of the schema has that name, it
        is `place`.
        """
        full_name = struct.full_name or place
        if full_name in self._defined:
            # Another record has this name: schema evolution changed the record in one of the two places where it occurs.
            full_name = place
        self._defined[full_name] = struct
        namespace, _, name = full_name.rpartition(".")
        space = {"namespace": namespace} if namespace else {}
        fields = [self._field(column, full_name) for column in struct.fields]
        return {"type": "record", "name": name, **space, "fields": fields}

    def _field(self, column: Field, parent: str) -> dict[str, Any]:
        """Return the Avro form of a field of a struct.

        Args:
            parent: the full name of the record that has the field.
        """
        kind = self._nullable(column.type, column.nullable, f"{parent}.{column.name}")
        doc = {"doc": column.doc} if column.doc else {}
        default = {"default": None} if column.nullable else {}
        return {"name": column.name, "type": kind, **doc, **default}

    def _nullable(self, kind: Type, nullable: bool, place: str) -> Any:
        """Return the Avro form of a type: its union with null if `nullable`.

        Args:
            kind: the type, of `schema/model.py`.
            place: `<full name of the parent record>.<field name>`. Named types inside the type get their names from it.
        """
        avro = self.type(kind, place)
        return ["null", avro] if nullable else avro

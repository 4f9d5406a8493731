"""Converts schemas between Spark and the model, Penstock's own classes for schemas (`schema/model.py`).

The Spark form is the JSON of a `StructType`, so pyspark is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import SchemaError
from penstock.schema import model as m
from penstock.schema.arrow import MAP_KEYS, NO_TYPE
from penstock.schema.model import Decimal, Field, Fixed, List, Map, Path, Simple, Struct, Type, dotted

SparkStruct = dict[str, Any]

_SIMPLE: dict[str, Type] = {
    "boolean": m.BOOLEAN,
    "byte": m.INT,
    "short": m.INT,
    "integer": m.INT,
    "long": m.LONG,
    "float": m.FLOAT,
    "double": m.DOUBLE,
    "string": m.STRING,
    "binary": m.BYTES,
    "date": m.DATE,
    "timestamp": m.MICROS,
    "timestamp_ntz": m.LOCAL_MICROS,
    "decimal": Decimal(10, 0),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
#: Strings with a length or a collation, which Spark writes into the name of the type. All are plain strings in Avro.
_STRING = re.compile(r"(char|varchar)\(\d+\)|string collate .+", re.IGNORECASE)

#: The Spark type for each type of the model. Spark 3.5 and 4.0 have no type for a time of day, so it is read as Avro's number.
_SPARK: dict[Type, str] = {
    **{kind: name for name, kind in _SIMPLE.items() if name not in ("byte", "short", "decimal")},
    m.MILLIS: "timestamp",
    m.LOCAL_MILLIS: "timestamp_ntz",
    m.TIME_MICROS: "long",
    m.TIME_MILLIS: "integer",
}


def spark_to_struct(struct: Mapping[str, Any], path: Path = ()) -> Struct:
    """Convert the JSON of a Spark struct to a `Struct`, Penstock's own form of a schema (`schema/model.py`).

    Args:
        path: the names of the columns that enclose the struct, for error messages.

    Raises:
        SchemaError: a column has a type that a Hudi table cannot have.
    """
    fields = []
    for column in struct["fields"]:
        kind = _read_type(column["type"], (*path, column["name"]))
        comment = (column.get("metadata") or {}).get("comment")
        fields.append(Field(column["name"], kind, column.get("nullable", True), comment or None))
    return Struct(tuple(fields))


def struct_to_spark(struct: Struct) -> SparkStruct:
    """Convert a `Struct` (`schema/model.py`) to the JSON of a Spark struct, as `StructType.jsonValue()` returns it."""
    return {"type": "struct", "fields": [_write_field(column) for column in struct.fields]}


def _read_type(kind: Any, path: Path) -> Type:
    """Convert the JSON of a Spark type to a type of `schema/model.py`. Raise SchemaError if a Hudi table cannot have the type.

    Args:
        path: the path of the column, for the error message.
    """
    match kind:
        case str():
            return _read_simple_type(kind, path)
        case {"type": "struct"}:
            return spark_to_struct(kind, path)
        case {"type": "array"}:
            return List(_read_type(kind["elementType"], (*path, "element")), kind["containsNull"])
        case {"type": "map", "keyType": key}:
            if not isinstance(key, str) or _read_simple_type(key, (*path, "key")) != m.STRING:
                raise SchemaError(MAP_KEYS.format(dotted(path), key if isinstance(key, str) else key["type"]))
            return Map(_read_type(kind["valueType"], (*path, "value")), kind["valueContainsNull"])
        case _:
            raise SchemaError(NO_TYPE.format(dotted(path), kind["type"]))


def _read_simple_type(name: str, path: Path) -> Type:
    """Convert the name of a Spark type, such as `long` or `decimal(10,2)`, to a type of `schema/model.py`.

    Raises:
        SchemaError: a Hudi table cannot have the type.
    """
    if name in _SIMPLE:
        return _SIMPLE[name]
    if numbers := _DECIMAL.fullmatch(name):
        return m.decimal(int(numbers[1]), int(numbers[2]), path)
    if _STRING.fullmatch(name):
        return m.STRING
    raise SchemaError(NO_TYPE.format(dotted(path), name))


def _write_field(column: Field) -> dict[str, Any]:
    """Return a `Field` of `schema/model.py` as the JSON of a field of a Spark struct."""
    metadata = {"comment": column.doc} if column.doc else {}
    return {"name": column.name, "type": _write_type(column.type), "nullable": column.nullable, "metadata": metadata}


def _write_type(kind: Type) -> Any:
    """Return the JSON of the Spark type for a type of `schema/model.py`."""
    match kind:
        case Simple():
            return _SPARK[kind]
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Fixed():
            return "binary"
        case List(element, nullable):
            return {"type": "array", "elementType": _write_type(element), "containsNull": nullable}
        case Map(value, nullable):
            return {
                "type": "map",
                "keyType": "string",
                "valueType": _write_type(value),
                "valueContainsNull": nullable,
            }
        case Struct():
            return struct_to_spark(kind)

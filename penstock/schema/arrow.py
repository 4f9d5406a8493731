"""Converts schemas between Arrow and the model, Penstock's own classes for schemas (`schema/model.py`).

Rows in memory have Arrow types. `arrow_to_struct` accepts every Arrow type that Spark or a user may pass. `struct_to_arrow`
always uses the same Arrow type for a type of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import SchemaError
from penstock.schema import model as m
from penstock.schema.model import Decimal, Field, Fixed, List, Map, Path, Simple, Struct, Type, dotted

MAP_KEYS = "column {} is a map with keys of type {}; a table can hold maps from strings only: cast the keys"
NO_TYPE = "column {} has the type {}, which a Hudi table cannot hold: cast it to another one, or leave it out"


def arrow_to_struct(fields: Iterable[pa.Field[Any]], path: Path = ()) -> Struct:
    """Convert the fields of an Arrow schema or struct to a `Struct`, Penstock's own form of a schema (`schema/model.py`).

    Args:
        path: the names of the columns that enclose the struct, for error messages.

    Raises:
        SchemaError: a column has a type that a Hudi table cannot have.
    """
    columns = []
    for arrow_field in fields:
        kind = _read_type(arrow_field.type, (*path, arrow_field.name))
        columns.append(Field(arrow_field.name, kind, arrow_field.nullable))
    return Struct(tuple(columns))


def struct_to_arrow(struct: Struct) -> list[pa.Field[Any]]:
    """Convert a `Struct` (`schema/model.py`) to Arrow fields, one per column."""
    return [pa.field(column.name, _write_type(column.type), column.nullable) for column in struct.fields]


def _is_int(kind: pa.DataType) -> bool:
    """Whether the Arrow type becomes the type INT of `schema/model.py`."""
    return kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())


def _is_long(kind: pa.DataType) -> bool:
    """Whether the Arrow type becomes the type LONG of `schema/model.py`."""
    return kind in (pa.int64(), pa.uint32())  # the values of uint64 do not fit a long


def _is_float(kind: pa.DataType) -> bool:
    """Whether the Arrow type becomes the type FLOAT of `schema/model.py`."""
    return kind in (pa.float16(), pa.float32())


def _is_string(kind: pa.DataType) -> bool:
    """Whether the Arrow type becomes the type STRING of `schema/model.py`."""
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _is_binary(kind: pa.DataType) -> bool:
    """Whether the Arrow type becomes the type BYTES of `schema/model.py`. `_SIMPLE` lists binaries of fixed size separately."""
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view())


_LISTS = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)
#: The type of the model for Arrow types without parameters: that of the first check that is true.
_SIMPLE: list[tuple[Callable[[pa.DataType], bool], Type]] = [
    (pt.is_boolean, m.BOOLEAN),
    (_is_int, m.INT),
    (_is_long, m.LONG),
    (_is_float, m.FLOAT),
    (pt.is_float64, m.DOUBLE),
    (_is_string, m.STRING),
    (_is_binary, m.BYTES),
    (pt.is_fixed_size_binary, m.BYTES),
    (pt.is_date, m.DATE),
    (pt.is_time32, m.TIME_MILLIS),
    (pt.is_time64, m.TIME_MICROS),
]


def _read_type(kind: Any, path: Path) -> Type:
    """Convert an Arrow type to a type of `schema/model.py`. Raise SchemaError if a Hudi table cannot have the type.

    Args:
        path: the path of the column, for the error message.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return _read_type(kind.storage_type, path)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return _read_type(kind.value_type, path)
    if pt.is_decimal(kind):
        return m.decimal(kind.precision, kind.scale, path)
    if pt.is_timestamp(kind):
        # Seconds and nanoseconds become microseconds: Hudi's Avro schemas have milliseconds and microseconds only.
        if kind.unit == "ms":
            return m.MILLIS if kind.tz else m.LOCAL_MILLIS
        return m.MICROS if kind.tz else m.LOCAL_MICROS
    if pt.is_struct(kind):
        return arrow_to_struct([kind.field(number) for number in range(kind.num_fields)], path)
    if pt.is_map(kind):
        if _read_type(kind.key_type, (*path, "key")) != m.STRING:
            raise SchemaError(MAP_KEYS.format(dotted(path), kind.key_type))
        return Map(_read_type(kind.item_type, (*path, "value")), kind.item_field.nullable)
    if any(is_list(kind) for is_list in _LISTS):
        return List(_read_type(kind.value_type, (*path, "element")), kind.value_field.nullable)
    for is_kind, simple in _SIMPLE:
        if is_kind(kind):
            return simple
    raise SchemaError(NO_TYPE.format(dotted(path), kind))


_ARROW: dict[Type, pa.DataType] = {
    m.BOOLEAN: pa.bool_(),
    m.INT: pa.int32(),
    m.LONG: pa.int64(),
    m.FLOAT: pa.float32(),
    m.DOUBLE: pa.float64(),
    m.STRING: pa.string(),
    m.BYTES: pa.binary(),
    m.DATE: pa.date32(),
    m.MICROS: pa.timestamp("us", "UTC"),
    m.MILLIS: pa.timestamp("ms", "UTC"),
    m.LOCAL_MICROS: pa.timestamp("us"),
    m.LOCAL_MILLIS: pa.timestamp("ms"),
    m.TIME_MICROS: pa.time64("us"),
    m.TIME_MILLIS: pa.time32("ms"),
}


def _write_type(kind: Type) -> pa.DataType:
    """Return the Arrow type for a type of `schema/model.py`. Rows in memory have this type."""
    match kind:
        case Simple():
            return _ARROW[kind]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Fixed(size):
            return pa.binary(size)
        case List(element, nullable):
            return pa.list_(pa.field("element", _write_type(element), nullable))
        case Map(value, nullable):
            values: Any = pa.field("value", _write_type(value), nullable)  # the type stubs do not accept a field
            return pa.map_(pa.string(), values)
        case Struct():
            return pa.struct(struct_to_arrow(kind))

"""Converts columns of a table to Hive types, and decides which changes of a column's type Hive allows."""

from __future__ import annotations

from penstock.schema import model as m
from penstock.schema.model import Decimal, Field, Fixed, List, Map, Simple, Struct, Type
from penstock.sync.catalog import CatalogColumn

_SIMPLE = {
    m.BOOLEAN: "boolean",
    m.INT: "int",
    m.LONG: "bigint",
    m.FLOAT: "float",
    m.DOUBLE: "double",
    m.STRING: "string",
    m.BYTES: "binary",
    m.DATE: "date",
    m.TIME_MICROS: "bigint",
    m.TIME_MILLIS: "int",
}
_TIMESTAMPS = frozenset({m.MICROS, m.MILLIS, m.LOCAL_MICROS, m.LOCAL_MILLIS})
#: Changes of a column's type that keep old files readable: from → to.
_WIDENED = {"int": "bigint", "float": "double"}


def to_columns(struct: Struct, *, with_timestamps: bool, with_comments: bool = False) -> tuple[CatalogColumn, ...]:
    """Return the columns of a Hudi table as columns of a catalog, in the same order.

    Names are in lower case, as Hive stores them.

    Args:
        with_timestamps: whether timestamps get the type timestamp; otherwise they get the type bigint.
        with_comments: whether the columns keep their comments.
    """
    columns = []
    for column in struct.fields:
        comment = (column.doc or "") if with_comments else ""
        columns.append(CatalogColumn(column.name.lower(), hive_type(column.type, with_timestamps), comment))
    return tuple(columns)


def hive_type(kind: Type, with_timestamps: bool) -> str:
    """Return the Hive type for a column's type, in lower case and without spaces, such as `array<bigint>`.

    Args:
        kind: the column's type, of `schema/model.py`.
        with_timestamps: whether timestamps get the type timestamp; otherwise they get the type bigint.
    """
    match kind:
        case Simple():
            if kind in _TIMESTAMPS:
                return "timestamp" if with_timestamps else "bigint"
            return _SIMPLE[kind]
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Fixed():
            return "binary"
        case List(element, _):
            return f"array<{hive_type(element, with_timestamps)}>"
        case Map(value, _):
            return f"map<string,{hive_type(value, with_timestamps)}>"
        case Struct(fields):
            return f"struct<{','.join(_nested(field, with_timestamps) for field in fields)}>"


def can_change(before: str, after: str) -> bool:
    """Whether Hive can still read old files after a column's Hive type changed from `before` to `after`.

    True if the type is the same, for int to bigint and float to double, and if both types contain a struct.
    """
    if _normal(before) == _normal(after):
        return True
    if _WIDENED.get(_normal(before)) == _normal(after):
        return True
    return "struct" in before.lower() and "struct" in after.lower()


def is_same_type(first: str, second: str) -> bool:
    """Whether two Hive types are the same, regardless of case and spaces."""
    return _normal(first) == _normal(second)


def _nested(field: Field, with_timestamps: bool) -> str:
    """Return a field of a struct as `name:type`. Hive needs the name in lower case, with underscores instead of dashes."""
    return f"{field.name.lower().replace('-', '_')}:{hive_type(field.type, with_timestamps)}"


def _normal(kind: str) -> str:
    """Return a Hive type in lower case, without spaces and backticks."""
    return "".join(kind.split()).replace("`", "").lower()

"""The model of a schema, independent of Avro, Arrow and Spark: every type that a column of a Hudi table can have.

All classes are frozen values. The Avro, Arrow and Spark forms of a schema are converted to a `Struct` and back. Checks and error
messages about schemas use the model only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.errors import SchemaError

#: The names from a top-level column down to a nested field.
Path = tuple[str, ...]


@dataclass(frozen=True)
class Simple:
    """A type without parameters. Its name is an Avro type (`long`) or an Avro logical type (`timestamp-micros`)."""

    name: str


@dataclass(frozen=True)
class Decimal:
    """The type of decimal numbers with `precision` digits, at most 38, of which `scale` digits are after the decimal point."""

    precision: int
    scale: int


@dataclass(frozen=True)
class Fixed:
    """The type of byte strings of a fixed length. Spark has no such type and reads them as binary."""

    size: int


@dataclass(frozen=True)
class List:
    """The type of lists. `nullable` says whether elements may be null."""

    element: Type
    nullable: bool


@dataclass(frozen=True)
class Map:
    """The type of maps with string keys, as in Avro. `nullable` says whether values may be null."""

    value: Type
    nullable: bool


@dataclass(frozen=True)
class Field:
    """A column of a table, or a field of a struct. `doc` is its comment, None if it has none."""

    name: str
    type: Type
    nullable: bool
    doc: str | None = None


@dataclass(frozen=True)
class Struct:
    """The columns of a table, or the fields of a nested struct."""

    fields: tuple[Field, ...]
    #: The full name of the Avro record that the struct was read from. None: `struct_to_avro` names it by Hudi's convention.
    full_name: str | None = field(default=None, compare=False)


Type = Simple | Decimal | Fixed | List | Map | Struct

BOOLEAN = Simple("boolean")
INT = Simple("int")
LONG = Simple("long")
FLOAT = Simple("float")
DOUBLE = Simple("double")
STRING = Simple("string")
BYTES = Simple("bytes")
DATE = Simple("date")
MICROS = Simple("timestamp-micros")
MILLIS = Simple("timestamp-millis")
LOCAL_MICROS = Simple("local-timestamp-micros")
LOCAL_MILLIS = Simple("local-timestamp-millis")
TIME_MICROS = Simple("time-micros")
TIME_MILLIS = Simple("time-millis")


def decimal(precision: int, scale: int, path: Path) -> Decimal:
    """Return the decimal type with this precision and scale.

    Args:
        path: the path of the column, for the error message.

    Raises:
        SchemaError: the precision is not 1 to 38, or the scale is not 0 to the precision, as Avro, Arrow and Spark require.
    """
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise SchemaError(f"column {dotted(path)} is decimal({precision},{scale}): 38 digits at most, the scale in them")
    return Decimal(precision, scale)


def decimal_size(precision: int) -> int:
    """Return the number of bytes in which Parquet and Hudi store a decimal of this precision.

    It is the least number of bytes whose two's complement holds every value.
    """
    greatest: int = 10**precision - 1
    sign_bit = 1
    return (greatest.bit_length() + sign_bit + 7) // 8


def check_names(struct: Struct, path: Path = ()) -> None:
    """Raise SchemaError if the name of a column or nested field cannot be used in a Hudi table.

    Args:
        path: the names of the columns that enclose the struct; empty for the top level.

    Raises:
        SchemaError: a name is not an Avro name, occurs twice, or differs from another name only by case.
    """
    seen: dict[str, str] = {}  # by name in lower case
    for column in struct.fields:
        place = (*path, column.name)
        if not _is_avro_name(column.name):
            raise SchemaError(
                f"column {dotted(place)} has a name that Hudi's schema (Avro) refuses: "
                "letters, digits and _ only, no digit first; rename it"
            )
        twin = seen.get(column.name.lower())
        if twin == column.name:
            raise SchemaError(f"column {dotted(place)} occurs twice; rename one")
        if twin is not None:
            raise SchemaError(f"columns {dotted((*path, twin))} and {dotted(place)} differ only by case; rename one")
        seen[column.name.lower()] = column.name
        for inner in _structs_in(column.type):
            check_names(inner, place)


def make_nullable(struct: Struct) -> Struct:
    """Return the struct with everything nullable: columns, nested fields, list elements and map values.

    Avro record names are dropped.
    """
    return _rebuild_struct(struct, nullable=True)


def drop_record_names(struct: Struct) -> Struct:
    """Return the struct without the names of Avro records. `struct_to_avro` then chooses names by Hudi's convention."""
    return _rebuild_struct(struct, nullable=False)


def dotted(path: Path) -> str:
    """Return the path of a column for an error message, with dots and in quotes: `'a.b'`."""
    return repr(".".join(path))


def text(kind: Type) -> str:
    """Return the Spark SQL name of a type, such as `array<bigint>`, for error messages."""
    match kind:
        case Simple(name):
            return _SPARK_SQL.get(name, name)
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Fixed(size):
            return f"binary({size})"
        case List(element, _):
            return f"array<{text(element)}>"
        case Map(value, _):
            return f"map<string,{text(value)}>"
        case Struct(fields):
            return f"struct<{','.join(f'{column.name}:{text(column.type)}' for column in fields)}>"


_SPARK_SQL = {
    "long": "bigint",
    "bytes": "binary",
    "timestamp-micros": "timestamp",
    "timestamp-millis": "timestamp (milliseconds)",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-millis": "timestamp_ntz (milliseconds)",
}


def _is_avro_name(name: str) -> bool:
    """Whether Avro's Java library accepts a name.

    The library checks one UTF-16 unit at a time with `Character.isLetter`. So it accepts letters of all scripts, but no character
    beyond the Basic Multilingual Plane.
    """
    return name != "" and all(map(_is_avro_letter_or_digit, name)) and not name[0].isdecimal()


def _is_avro_letter_or_digit(char: str) -> bool:
    """Whether Avro's Java library accepts the character in a name: a letter or digit of any script, or `_`."""
    return char == "_" or (ord(char) < 0x10000 and (char.isalpha() or char.isdecimal()))


def _structs_in(kind: Type) -> list[Struct]:
    """Return a list with the struct in a type, or an empty list.

    The struct is the type itself, or the element or value of its lists and maps. There is never more than one.
    """
    match kind:
        case Struct():
            return [kind]
        case List(inner, _) | Map(inner, _):
            return _structs_in(inner)
    return []


def _rebuild_struct(struct: Struct, *, nullable: bool) -> Struct:
    """Return the struct without Avro record names.

    Args:
        nullable: whether to make everything nullable. Otherwise no nullability is changed.
    """
    fields = []
    for column in struct.fields:
        kind = _rebuild_type(column.type, nullable=nullable)
        fields.append(replace(column, type=kind, nullable=nullable or column.nullable))
    return Struct(tuple(fields))


def _rebuild_type(kind: Type, *, nullable: bool) -> Type:
    """Return a type without the names of Avro records in its structs.

    Args:
        nullable: whether to make fields, list elements and map values nullable. Otherwise no nullability is changed.
    """
    match kind:
        case Struct():
            return _rebuild_struct(kind, nullable=nullable)
        case List(element, element_nullable):
            return List(_rebuild_type(element, nullable=nullable), nullable or element_nullable)
        case Map(value, value_nullable):
            return Map(_rebuild_type(value, nullable=nullable), nullable or value_nullable)
    return kind

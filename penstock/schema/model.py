"""The model of a schema, independent of Avro, Arrow and Spark: every type that a column of a Hudi table can have.

Frozen values. Each form of a schema is read into a `Struct` and written from a `Struct`. Checks and messages use the model only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.errors import SchemaError

#: The names from a top-level column to a nested one.
Path = tuple[str, ...]


@dataclass(frozen=True)
class Simple:
    """A type without parameters, by its Avro name or the name of its Avro logical type."""

    name: str


@dataclass(frozen=True)
class Decimal:
    """A decimal number of up to 38 digits."""

    precision: int
    scale: int


@dataclass(frozen=True)
class Fixed:
    """Bytes of one length. Spark has no type for them and reads binary."""

    size: int


@dataclass(frozen=True)
class List:
    """A list. `nullable` is about the elements."""

    element: Type
    nullable: bool


@dataclass(frozen=True)
class Map:
    """A map with string keys, as in Avro. `nullable` is about the values."""

    value: Type
    nullable: bool


@dataclass(frozen=True)
class Field:
    """A column, or a field of a struct."""

    name: str
    type: Type
    nullable: bool
    doc: str | None = None


@dataclass(frozen=True)
class Struct:
    """The columns of a table, or a nested struct."""

    fields: tuple[Field, ...]
    #: The name of the Avro record that was read. None: `struct_to_avro` makes a name by Hudi's convention.
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
    """Return a decimal type that Avro, Arrow and Spark can hold.

    Raises:
        SchemaError: the precision is not 1 to 38, or the scale is not 0 to the precision.
    """
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise SchemaError(f"column {dotted(path)} is decimal({precision},{scale}): 38 digits at most, the scale in them")
    return Decimal(precision, scale)


def decimal_size(precision: int) -> int:
    """Return the fewest bytes whose two's complement holds every number of `precision` digits, as Parquet and Hudi do."""
    greatest: int = 10**precision - 1
    sign_bit = 1
    return (greatest.bit_length() + sign_bit + 7) // 8


def check_names(struct: Struct, path: Path = ()) -> None:
    """Check the names of all columns, at every depth.

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
    """Return the struct with null allowed at every depth, and without the names of its Avro records."""
    return _rebuild_struct(struct, nullable=True)


def drop_record_names(struct: Struct) -> Struct:
    """Return the struct without the names of its Avro records: they are named by Hudi's convention again."""
    return _rebuild_struct(struct, nullable=False)


def dotted(path: Path) -> str:
    """Return the path of a column for a message: dots between the names, in quotes."""
    return repr(".".join(path))


def text(kind: Type) -> str:
    """Return a type for a message, as Spark SQL spells it."""
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

    It checks one UTF-16 unit at a time with `Character.isLetter`: letters of all scripts are accepted, but no character beyond
    the Basic Multilingual Plane.
    """
    return name != "" and all(map(_is_avro_letter_or_digit, name)) and not name[0].isdecimal()


def _is_avro_letter_or_digit(char: str) -> bool:
    return char == "_" or (ord(char) < 0x10000 and (char.isalpha() or char.isdecimal()))


def _structs_in(kind: Type) -> list[Struct]:
    """Return the struct that a type is, or that the elements or values of a list or map are."""
    match kind:
        case Struct():
            return [kind]
        case List(inner, _) | Map(inner, _):
            return _structs_in(inner)
    return []


def _rebuild_struct(struct: Struct, *, nullable: bool) -> Struct:
    """Return the struct without record names; with null allowed at every depth if `nullable`."""
    fields = []
    for column in struct.fields:
        kind = _rebuild_type(column.type, nullable=nullable)
        fields.append(replace(column, type=kind, nullable=nullable or column.nullable))
    return Struct(tuple(fields))


def _rebuild_type(kind: Type, *, nullable: bool) -> Type:
    match kind:
        case Struct():
            return _rebuild_struct(kind, nullable=nullable)
        case List(element, element_nullable):
            return List(_rebuild_type(element, nullable=nullable), nullable or element_nullable)
        case Map(value, value_nullable):
            return Map(_rebuild_type(value, nullable=nullable), nullable or value_nullable)
    return kind

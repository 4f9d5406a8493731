"""The model between the forms of a schema: what a column can be, once, without Avro, Arrow or Spark.

Frozen values. Every form is read into a `Struct` and written from one; checks and messages work on it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.errors import SchemaError

Path = tuple[str, ...]  # of a column, from the top


@dataclass(frozen=True)
class Simple:
    """A type without parameters, by its Avro name or the name of its Avro logical type."""

    name: str


@dataclass(frozen=True)
class Decimal:
    precision: int
    scale: int


@dataclass(frozen=True)
class Fixed:
    """Bytes of one length; Spark knows them as binary."""

    size: int


@dataclass(frozen=True)
class List:
    element: Type
    nullable: bool


@dataclass(frozen=True)
class Map:
    """A map from strings."""

    value: Type
    nullable: bool


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    nullable: bool
    doc: str | None = None


@dataclass(frozen=True)
class Struct:
    fields: tuple[Field, ...]
    full_name: str | None = field(default=None, compare=False)  # as found in Avro; None: by Hudi's convention


Type = Simple | Decimal | Fixed | List | Map | Struct

BOOLEAN, INT, LONG = Simple("boolean"), Simple("int"), Simple("long")
FLOAT, DOUBLE = Simple("float"), Simple("double")
STRING, BYTES = Simple("string"), Simple("bytes")
DATE = Simple("date")
MICROS, MILLIS = Simple("timestamp-micros"), Simple("timestamp-millis")
LOCAL_MICROS, LOCAL_MILLIS = Simple("local-timestamp-micros"), Simple("local-timestamp-millis")
TIME_MICROS, TIME_MILLIS = Simple("time-micros"), Simple("time-millis")


def decimal(precision: int, scale: int, path: Path) -> Decimal:
    """A decimal that Avro, Arrow and Spark all can hold.

    Raises:
        SchemaError: it has too many digits, or its scale lies outside of them.
    """
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise SchemaError(f"column {dotted(path)} is decimal({precision},{scale}): 38 digits at most, the scale in them")
    return Decimal(precision, scale)


def bytes_of_decimal(precision: int) -> int:
    """The fewest bytes whose two's complement holds every number of that many digits."""
    greatest: int = 10**precision - 1
    return (greatest.bit_length() + 1 + 7) // 8


def checked(struct: Struct, path: Path = ()) -> Struct:
    """The struct itself.

    Raises:
        SchemaError: a name in it is none that Avro takes, stands twice, or differs from another only by case.
    """
    seen: dict[str, str] = {}
    for column in struct.fields:
        place = (*path, column.name)
        if not _is_avro_name(column.name):
            raise SchemaError(
                f"column {dotted(place)} has a name that Hudi's schema (Avro) refuses: "
                "letters, digits and _ only, no digit first; rename it"
            )
        twin = seen.get(column.name.lower())
        if twin == column.name:
            raise SchemaError(f"column {dotted(place)} stands twice; rename one")
        if twin is not None:
            raise SchemaError(f"columns {dotted((*path, twin))} and {dotted(place)} differ only by case; rename one")
        seen[column.name.lower()] = column.name
        for inner in _structs_in(column.type):
            checked(inner, place)
    return struct


def all_nullable(struct: Struct) -> Struct:
    """The struct with null allowed everywhere."""
    return _rebuilt(struct, lambda _: True)


def nameless(struct: Struct) -> Struct:
    """The struct with the names of all records left to convention."""
    return _rebuilt(struct, lambda nullable: nullable)


def dotted(path: Path) -> str:
    """A column for a message."""
    return repr(".".join(path))


def text(kind: Type) -> str:
    """A type for a message, as people write it in Spark SQL."""
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
    """As Avro's Java library judges, one UTF-16 unit at a time: letters of any script in the BMP are letters."""
    fits = all(char == "_" or (ord(char) < 0x10000 and (char.isalpha() or char.isdecimal())) for char in name)
    return name != "" and fits and not name[0].isdecimal()


def _structs_in(kind: Type) -> list[Struct]:
    match kind:
        case Struct():
            return [kind]
        case List(inner, _) | Map(inner, _):
            return _structs_in(inner)
    return []


def _rebuilt(struct: Struct, nullable: Callable[[bool], bool]) -> Struct:
    def rebuilt(kind: Type) -> Type:
        match kind:
            case Struct():
                return _rebuilt(kind, nullable)
            case List(element, optional):
                return List(rebuilt(element), nullable(optional))
            case Map(value, optional):
                return Map(rebuilt(value), nullable(optional))
        return kind

    fields = [replace(column, type=rebuilt(column.type), nullable=nullable(column.nullable)) for column in struct.fields]
    return Struct(tuple(fields))

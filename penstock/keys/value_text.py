"""Spark expressions that print values as strings, for record keys and partition paths; and expressions that raise errors.

Hudi prints some values in one format when it writes Avro records (upsert, insert), and in another one when it writes Spark rows
(bulk_insert). Penstock uses the format of Avro records for every operation, so that a key has the same text in the whole table:

- numbers and booleans as Java prints them (`7`, `1.5`, `1.0E10`, `true`), decimals with their scale (`12.30`; below 0.000001 Java
  changes to `1E-10`), dates as `2024-02-29`;
- timestamps as microseconds since 1970, or, with consistent logical timestamps, as `2016-12-29 09:54:00.0` in the session's zone;
- binary and nested values raise SchemaError.

Results do not depend on ANSI mode or on the time parser policy.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from penstock.error_text import marked_ends
from penstock.errors import SchemaError
from penstock.keys.field import Field
from penstock.keys.generator import KeySettings

TEXT_TYPES = (StringType, CharType, VarcharType)
_CAST_TYPES = (BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DateType, NullType)
_MICROS_PER_DAY = 86_400_000_000


def text_of(field: Field, settings: KeySettings, *, option: str) -> Column:
    """Return an expression for the field's value as a string; null stays null.

    Args:
        option: the option that names the field, for error messages.

    Raises:
        SchemaError: the field has a type that cannot be part of a key.
    """
    column = field.column
    if isinstance(field.type, TEXT_TYPES):
        return column
    if isinstance(field.type, _CAST_TYPES):
        return column.cast("string")
    if isinstance(field.type, DecimalType):
        # Not a cast: the text of a cast depends on ANSI mode.
        return F.when(column.isNotNull(), F.format_string("%s", column))
    if isinstance(field.type, (TimestampType, TimestampNTZType)):
        if settings.consistent_logical_timestamp:
            return timestamp_text(column)
        return micros_of(column, field.type).cast("string")
    raise unsupported_type(field, option)


def timestamp_text(column: Column) -> Column:
    """Return an expression that prints a timestamp as `2016-12-29 09:54:00.0`; null stays null.

    The fraction of the second has at least one digit, and no further trailing zeros.
    """
    text = column.cast("string")
    return F.when(F.instr(text, ".") > 0, text).otherwise(F.concat(text, F.lit(".0")))


def micros_of(column: Column, type_: DataType) -> Column:
    """Return an expression for a timestamp as a long, in microseconds since 1970; null stays null.

    A timestamp without a zone counts as UTC, whatever the session's zone is.

    Args:
        type_: the type of the column, TimestampType or TimestampNTZType.
    """
    if isinstance(type_, TimestampType):
        return F.unix_micros(column)
    days = F.unix_date(column.cast("date")).cast("long")
    seconds = F.date_part(F.lit("SECOND"), column)  # decimal(8, 6)
    in_day = (F.hour(column) * 60 + F.minute(column)).cast("long") * 60_000_000 + (seconds * 1_000_000).cast("long")
    return days * _MICROS_PER_DAY + in_day


def unsupported_type(field: Field, option: str) -> SchemaError:
    """Return the error about a column whose type cannot be part of a key.

    Args:
        option: the option that names the column.
    """
    return SchemaError(
        f"{option}={field.name}: a column of type {field.type.simpleString()} cannot be part of a key. "
        f"Fix: add a column with its text, for example with hex() or cast(... as string), and name that one."
    )


def fail(message: str, value: Column | None = None) -> Column:
    """Return an expression that raises an error with this message when Spark evaluates it for a row.

    On the driver `error_text.typed_error` turns Spark's exception into a RecordKeyError.

    Args:
        value: a string column whose value replaces `{}` in the message; None: the message is raised unchanged.
    """
    opening, closing = marked_ends()
    if value is None:
        return F.raise_error(F.lit(opening + message + closing))
    before, _, after = message.partition("{}")
    return F.raise_error(F.concat(F.lit(opening + before), value, F.lit(after + closing)))

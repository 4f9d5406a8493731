"""Values as text, and texts as record keys and partition paths: the expressions that all generators are made of.

Every text is the one that Hudi's Avro path writes, whatever the operation, so a table has one form only:

- numbers and booleans as Java prints them (`7`, `1.5`, `1.0E10`, `true`), decimals with their scale (`12.30`; below
  0.000001 Java changes to `1E-10`), dates as `2024-02-29`;
- timestamps as microseconds since 1970, or, with consistent logical timestamps, as `2016-12-29 09:54:00.0` in the
  session's zone;
- binary and nested values are refused.

Results do not depend on ANSI mode or on the time parser policy.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from penstock.error_text import marked_ends
from penstock.errors import SchemaError
from penstock.keys.column import Field, find_field
from penstock.keys.generator import PARTITION_PATH_OPTION, RECORD_KEY_OPTION, KeyColumns, KeySettings
from penstock.keys.partition_path import DEFAULT_PARTITION, ESCAPED_CHARACTERS, SEPARATOR
from penstock.keys.row_errors import all_parts_missing_message, missing_key_message

TEXT_TYPES = (StringType, CharType, VarcharType)
_CAST_TYPES = (BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DateType, NullType)
_MICROS_PER_DAY = 86_400_000_000
_CONTROL_REGEX = r"[\x00-\x1f\x7f]"
_ESCAPED_REGEX = r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]"


# --- record keys


def bare_key(schema: StructType, name: str, settings: KeySettings) -> tuple[Column, str | None]:
    """Give the key `value` of one field, and the column's name if the column is that text already."""
    field = find_field(schema, name, option=RECORD_KEY_OPTION)
    text = text_of(field, settings, option=RECORD_KEY_OPTION)
    failure = fail(missing_key_message(name, "{}"), F.coalesce(text, F.lit("null")))
    plain = field.path[0] if field.is_top_level and isinstance(field.type, StringType) else None
    return F.when(text.isNull() | (text == ""), failure).otherwise(text).alias("record_key"), plain


def labelled_key(schema: StructType, names: Sequence[str], settings: KeySettings) -> Column:
    """Give the key `f1:v1,f2:v2`, with placeholders for null and empty values; one value at least must be neither."""
    parts, present = [], F.lit(False)
    for name in names:
        text = text_of(find_field(schema, name, option=RECORD_KEY_OPTION), settings, option=RECORD_KEY_OPTION)
        shown = F.when(text.isNull(), "__null__").when(text == "", "__empty__").otherwise(text)
        parts.append(F.concat(F.lit(f"{name}:"), shown))
        present = present | (text.isNotNull() & (text != ""))
    key = F.concat_ws(",", *parts)
    failure = fail(all_parts_missing_message(names, "{}"), key)
    return F.when(present, key).otherwise(failure).alias("record_key")


# --- partition paths


def partition_path(schema: StructType, names: Sequence[str], settings: KeySettings) -> Column:
    """Give the path of these fields, one folder each; without any, the empty path."""
    folders = []
    for name in names:
        field = find_field(schema, name, option=PARTITION_PATH_OPTION)
        folders.append(folder(name, text_of(field, settings, option=PARTITION_PATH_OPTION), settings))
    return joined(folders or [F.lit("")])


def joined(folders: Sequence[Column]) -> Column:
    """Give the path of these folders."""
    return (folders[0] if len(folders) == 1 else F.concat_ws(SEPARATOR, *folders)).alias("partition_path")


def folder(name: str, value: Column, settings: KeySettings) -> Column:
    """Give one folder of a path: the default for null and empty values, then escaping, then `name=` in hive style."""
    text = escaped(value) if settings.url_encode else value
    text = F.when(value.isNull() | (value == ""), DEFAULT_PARTITION).otherwise(text)
    return F.concat(F.lit(f"{name}="), text) if settings.hive_style else text


def in_folders_of(
    schema: StructType, names: Sequence[str], settings: KeySettings, key: tuple[Column | None, str | None]
) -> KeyColumns:
    """Give the columns of a key, and of the path that some fields make with their values as they are."""
    return KeyColumns(
        record_key=key[0],
        partition_path=partition_path(schema, names, settings),
        plain_record_key=key[1],
        plain_partition_path=plain_folder(schema, names, settings),
        record_key_fields=settings.record_key_fields,
        partition_path_fields=tuple(names),
    )


def plain_folder(schema: StructType, names: Sequence[str], settings: KeySettings) -> str | None:
    """Give the name of the string column that is the whole path as it stands, if there is one."""
    if len(names) != 1 or settings.hive_style or settings.url_encode:
        return None
    field = find_field(schema, names[0], option=PARTITION_PATH_OPTION)
    return field.path[0] if field.is_top_level and isinstance(field.type, StringType) else None


def escaped(text: Column) -> Column:
    """Replace Hive's special characters by `%XX`. Texts without any, the usual ones, cost one look."""
    control = [character for character in ESCAPED_CHARACTERS if not character.isprintable()]
    visible = [character for character in ESCAPED_CHARACTERS if character.isprintable()]
    visible.sort(key=lambda character: character != "%")  # first, or the escapes would be escaped
    clear = _replaced(text, visible)
    clear = F.when(text.rlike(_CONTROL_REGEX), _replaced(clear, control)).otherwise(clear)
    return F.when(text.rlike(_ESCAPED_REGEX), clear).otherwise(text)


# --- values


def text_of(field: Field, settings: KeySettings, *, option: str) -> Column:
    """Give the field's value as text; null stays null.

    Raises:
        SchemaError: values of this type have no text that could be a key.
    """
    column = field.column
    if isinstance(field.type, TEXT_TYPES):
        return column
    if isinstance(field.type, _CAST_TYPES):
        return column.cast("string")
    if isinstance(field.type, DecimalType):
        # not a cast: its text depends on ANSI mode
        return F.when(column.isNotNull(), F.format_string("%s", column))
    if isinstance(field.type, (TimestampType, TimestampNTZType)):
        if settings.consistent_logical_timestamp:
            return timestamp_text(column)
        return micros_of(column, field.type).cast("string")
    raise refused_type(field, option)


def timestamp_text(column: Column) -> Column:
    """Give `2016-12-29 09:54:00.0`: the fraction without its trailing zeros, but one digit at least."""
    text = column.cast("string")
    return F.when(F.instr(text, ".") > 0, text).otherwise(F.concat(text, F.lit(".0")))


def micros_of(column: Column, type_: DataType) -> Column:
    """Give microseconds since 1970; a timestamp without a zone counts as one in UTC, whatever the session's zone is."""
    if isinstance(type_, TimestampType):
        return F.unix_micros(column)
    days = F.unix_date(column.cast("date")).cast("long")
    seconds = F.date_part(F.lit("SECOND"), column)  # decimal(8, 6)
    in_day = (F.hour(column) * 60 + F.minute(column)).cast("long") * 60_000_000 + (seconds * 1_000_000).cast("long")
    return days * _MICROS_PER_DAY + in_day


def refused_type(field: Field, option: str) -> SchemaError:
    return SchemaError(
        f"{option}={field.name}: a column of type {field.type.simpleString()} cannot be part of a key. "
        f"Fix: add a column with its text, for example with hex() or cast(... as string), and name that one."
    )


def fail(message: str, value: Column | None = None) -> Column:
    """Give an expression that raises the message, with the row's value in place of `{}`."""
    opening, closing = marked_ends()
    if value is None:
        return F.raise_error(F.lit(opening + message + closing))
    before, _, after = message.partition("{}")
    return F.raise_error(F.concat(F.lit(opening + before), value, F.lit(after + closing)))


def _replaced(text: Column, characters: Sequence[str]) -> Column:
    for character in characters:
        text = F.replace(text, F.lit(character), F.lit(f"%{ord(character):02X}"))
    return text

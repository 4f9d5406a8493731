"""Partition paths as Spark expressions: one folder per field, with the default partition, escapes and hive style."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from penstock.keys.field import find_field
from penstock.keys.generator import PARTITION_PATH_OPTION, KeyColumns, KeySettings
from penstock.keys.partition_path import DEFAULT_PARTITION, ESCAPED_CHARACTERS, SEPARATOR
from penstock.keys.value_text import text_of

_CONTROL_REGEX = r"[\x00-\x1f\x7f]"
_ESCAPED_REGEX = r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]"


def make_key_columns(
    schema: StructType, names: Sequence[str], settings: KeySettings, key: tuple[Column | None, str | None]
) -> KeyColumns:
    """Return the `KeyColumns` of a generator whose partition path has one folder per field.

    Args:
        names: the partition path fields. The value of a field names its folder.
        key: two items: the expression of the record key, None if the writer generates keys; and the name of a string column that
            already holds the key, None if no column does.
    """
    record_key, plain_record_key = key
    return KeyColumns(
        record_key=record_key,
        partition_path=path_of_fields(schema, names, settings),
        plain_record_key=plain_record_key,
        plain_partition_path=find_plain_column(schema, names, settings),
        record_key_fields=settings.record_key_fields,
        partition_path_fields=tuple(names),
    )


def path_of_fields(schema: StructType, names: Sequence[str], settings: KeySettings) -> Column:
    """Return the expression of a partition path with one folder per field, named by the field's value.

    Without fields the path is empty.
    """
    folders = []
    for name in names:
        field = find_field(schema, name, option=PARTITION_PATH_OPTION)
        folders.append(make_folder(name, text_of(field, settings, option=PARTITION_PATH_OPTION), settings))
    return join_folders(folders or [F.lit("")])


def join_folders(folders: Sequence[Column]) -> Column:
    """Return an expression that joins folders with slashes to a partition path."""
    return (folders[0] if len(folders) == 1 else F.concat_ws(SEPARATOR, *folders)).alias("partition_path")


def make_folder(name: str, value: Column, settings: KeySettings) -> Column:
    """Return an expression for the name of one folder of a partition path, made of a field's value.

    Null and empty values become the default partition. Other values are escaped if `url_encode` is set. In hive style `name=` is
    put in front.

    Args:
        name: the partition path field.
        value: the value as a string column.
    """
    text = escape(value) if settings.url_encode else value
    text = F.when(value.isNull() | (value == ""), DEFAULT_PARTITION).otherwise(text)
    return F.concat(F.lit(f"{name}="), text) if settings.hive_style else text


def find_plain_column(schema: StructType, names: Sequence[str], settings: KeySettings) -> str | None:
    """Return the name of the string column that already holds the whole partition path; None if the path has to be computed.

    Args:
        names: the partition path fields.
    """
    if len(names) != 1 or settings.hive_style or settings.url_encode:
        return None
    field = find_field(schema, names[0], option=PARTITION_PATH_OPTION)
    return field.path[0] if field.is_top_level and isinstance(field.type, StringType) else None


def escape(text: Column) -> Column:
    """Return an expression that replaces Hive's special characters by `%XX`.

    Usual text has none of these characters, and costs only one match of a regular expression.
    """
    control = [character for character in ESCAPED_CHARACTERS if not character.isprintable()]
    visible = [character for character in ESCAPED_CHARACTERS if character.isprintable()]
    visible.sort(key=lambda character: character != "%")  # the percent sign first, or it would replace those of other escapes
    escaped = _replace_each(text, visible)
    escaped = F.when(text.rlike(_CONTROL_REGEX), _replace_each(escaped, control)).otherwise(escaped)
    return F.when(text.rlike(_ESCAPED_REGEX), escaped).otherwise(text)


def _replace_each(text: Column, characters: Sequence[str]) -> Column:
    """Return an expression that replaces each of these characters by `%XX`, one after another."""
    for character in characters:
        text = F.replace(text, F.lit(character), F.lit(f"%{ord(character):02X}"))
    return text

"""Record keys as Spark expressions: the bare value of one field, or `field:value,...` of several."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from penstock.keys.field import find_field
from penstock.keys.generator import RECORD_KEY_OPTION, KeySettings
from penstock.keys.key_errors import all_parts_missing_message, missing_key_message
from penstock.keys.value_text import fail, text_of


def key_of_all_fields(
    schema: StructType, settings: KeySettings, *, label_single: bool = False
) -> tuple[Column | None, str | None]:
    """Return the key of all key fields, and its plain column if it has one; both None if keys are generated.

    Args:
        label_single: write `field:value` for a single field too.
    """
    fields = settings.record_key_fields
    if not fields:
        return None, None
    if len(fields) == 1 and not label_single:
        return bare_key(schema, fields[0], settings)
    return labelled_key(schema, fields, settings), None


def bare_key(schema: StructType, name: str, settings: KeySettings) -> tuple[Column, str | None]:
    """Return the key `value` of one field, and the name of the column if the column is that text already."""
    field = find_field(schema, name, option=RECORD_KEY_OPTION)
    text = text_of(field, settings, option=RECORD_KEY_OPTION)
    failure = fail(missing_key_message(name, "{}"), F.coalesce(text, F.lit("null")))
    plain = field.path[0] if field.is_top_level and isinstance(field.type, StringType) else None
    return F.when(text.isNull() | (text == ""), failure).otherwise(text).alias("record_key"), plain


def labelled_key(schema: StructType, names: Sequence[str], settings: KeySettings) -> Column:
    """Return the key `f1:v1,f2:v2`, with placeholders for null and empty values. Raise if all values are null or empty."""
    parts = []
    has_value = F.lit(False)
    for name in names:
        text = text_of(find_field(schema, name, option=RECORD_KEY_OPTION), settings, option=RECORD_KEY_OPTION)
        value = F.when(text.isNull(), "__null__").when(text == "", "__empty__").otherwise(text)
        parts.append(F.concat(F.lit(f"{name}:"), value))
        has_value = has_value | (text.isNotNull() & (text != ""))
    key = F.concat_ws(",", *parts)
    failure = fail(all_parts_missing_message(names, "{}"), key)
    return F.when(has_value, key).otherwise(failure).alias("record_key")

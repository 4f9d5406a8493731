"""Record keys as Spark expressions: the bare value of one field, or `field:value,field:value` of several."""

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
    """Return the expression of the record key made of all key fields, and the key's plain column.

    The plain column is the name of a string column that already holds the key; None if there is none. Both are None if the
    settings name no key field: then the writer generates keys. The expression raises RecordKeyError for a row whose key fields
    are all null or empty.

    Args:
        label_single: write `field:value` even if there is only one key field.
    """
    fields = settings.record_key_fields
    if not fields:
        return None, None
    if len(fields) == 1 and not label_single:
        return bare_key(schema, fields[0], settings)
    return labelled_key(schema, fields, settings), None


def bare_key(schema: StructType, name: str, settings: KeySettings) -> tuple[Column, str | None]:
    """Return the expression of a record key that is the value of one field, and the key's plain column.

    The plain column is the name of the field if the field is a top-level string column, which already holds the key; otherwise
    None. The expression raises RecordKeyError for a row whose field is null or empty.
    """
    field = find_field(schema, name, option=RECORD_KEY_OPTION)
    text = text_of(field, settings, option=RECORD_KEY_OPTION)
    failure = fail(missing_key_message(name, "{}"), F.coalesce(text, F.lit("null")))
    plain = field.path[0] if field.is_top_level and isinstance(field.type, StringType) else None
    return F.when(text.isNull() | (text == ""), failure).otherwise(text).alias("record_key"), plain


def labelled_key(schema: StructType, names: Sequence[str], settings: KeySettings) -> Column:
    """Return the expression of a record key `f1:v1,f2:v2`, with `__null__` and `__empty__` for null and empty values.

    The expression raises RecordKeyError for a row in which all values are null or empty.
    """
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

"""Errors about the record key of a row. Hudi's sentence comes first, because people search for it, then the fix.

Spark expressions and workers raise the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import RecordKeyError
from penstock.keys.generator import RECORD_KEY_OPTION

_KEY_FIX = (
    f"Fix: filter these rows or fill the column, or choose other columns with {RECORD_KEY_OPTION}; "
    "without that option keys are generated."
)


def missing_key(field: str, value: str | None) -> RecordKeyError:
    """Return the error about a row whose only key field is null (`value` is None) or empty."""
    return RecordKeyError(missing_key_message(field, "null" if value is None else value))


def missing_key_message(field: str, value: str) -> str:
    """Return the message about a row whose only key field is null or empty.

    Args:
        field: the name of the key field.
        value: the text of the field's value, or a placeholder such as `{}`.
    """
    return f'recordKey value: "{value}" for field: "{field}" cannot be null or empty. {_KEY_FIX}'


def all_parts_missing_message(fields: Sequence[str], key: str) -> str:
    """Return the message about a row whose key fields are all null or empty.

    Args:
        fields: the names of the key fields.
        key: the row's key, or a placeholder such as `{}`.
    """
    return f'recordKey values: "{key}" for fields: [{", ".join(fields)}] cannot be entirely null or empty. {_KEY_FIX}'

"""Parsing of the values of `hoodie.datasource.write.partitionpath.field`: `column`, or `column:TYPE` for the custom generator.

This module does not import pyspark.
"""

from __future__ import annotations

from collections.abc import Iterable


def split_typed_field(field: str) -> tuple[str, str] | None:
    """Split `column:TYPE` of the custom key generator into (column, TYPE); return None if TYPE is missing or unknown."""
    name, colon, kind = field.rpartition(":")
    kind = kind.strip().upper()
    return (name.strip(), kind) if colon and name.strip() and kind in ("SIMPLE", "TIMESTAMP") else None


def partition_columns(fields: Iterable[str]) -> tuple[str, ...]:
    """Return the column names of partition path fields, without the `:TYPE` of the custom key generator."""
    return tuple(field.split(":")[0] for field in fields)

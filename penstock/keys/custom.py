"""CustomKeyGenerator: each partition path field has a type, for example `country:SIMPLE,ts:TIMESTAMP`.

SIMPLE writes the value of the column as a folder. TIMESTAMP prints the time in the column by the options
`hoodie.keygen.timebased.*`. The folders of a path are in the order of the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.keys.generator import PARTITION_PATH_OPTION, KeyColumns, KeySettings
from penstock.keys.partition_fields import split_typed_field
from penstock.keys.partition_path_column import find_plain_column, join_folders, path_of_fields
from penstock.keys.record_key_column import key_of_all_fields
from penstock.keys.timestamp import make_time_folder
from penstock.options.key_generator_names import CUSTOM


@dataclass(frozen=True)
class CustomKeyGenerator:
    """A key generator in which each partition path field has a type: SIMPLE (the value) or TIMESTAMP (a printed time)."""

    settings: KeySettings
    java_class: ClassVar[str] = CUSTOM

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the Spark expressions for the record key and the partition path, with one folder per typed field.

        Raises:
            SchemaError: a field is missing, occurs twice, or has a type that cannot be part of a key.
            OptionError: a partition path field has no known type.
        """
        key, plain_key = key_of_all_fields(schema, self.settings)
        fields = parse_typed_fields(self.settings)
        names = tuple(name for name, _ in fields)
        only_simple = all(kind == "SIMPLE" for _, kind in fields)
        return KeyColumns(
            record_key=key,
            partition_path=_make_path(schema, fields, self.settings),
            plain_record_key=plain_key,
            plain_partition_path=find_plain_column(schema, names, self.settings) if only_simple else None,
            record_key_fields=self.settings.record_key_fields,
            partition_path_fields=names,
        )


def parse_typed_fields(settings: KeySettings) -> tuple[tuple[str, str], ...]:
    """Return (name, type) of each partition path field: ("ts", "TIMESTAMP") for `ts:TIMESTAMP`.

    Raises:
        OptionError: a field is not `name:SIMPLE` or `name:TIMESTAMP`.
    """
    return tuple(_parse_typed_field(field) for field in settings.partition_path_fields if field.strip())


def _parse_typed_field(field: str) -> tuple[str, str]:
    """Return (name, type) of one partition path field, such as `ts:TIMESTAMP`. Raise OptionError if it has no known type."""
    typed = split_typed_field(field)
    if typed is None:
        raise OptionError(
            f"Unable to find field names for partition path in proper format: {PARTITION_PATH_OPTION} has {field!r}. "
            f"Fix: write {field.partition(':')[0].strip() or 'column'}:SIMPLE or ...:TIMESTAMP, "
            "at each write, because tables store the names without the types."
        )
    return typed


def _make_path(schema: StructType, fields: tuple[tuple[str, str], ...], settings: KeySettings) -> Column:
    """Return the expression of the partition path: a folder for each (name, type) pair of `fields`, in that order."""
    if not fields:
        return path_of_fields(schema, (), settings)
    folders = []
    for name, kind in fields:
        if kind == "TIMESTAMP":
            folders.append(make_time_folder(schema, name, settings))
        else:
            folders.append(path_of_fields(schema, (name,), settings))
    return join_folders(folders)

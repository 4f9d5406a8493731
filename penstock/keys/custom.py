"""CustomKeyGenerator: partition path fields with a type each, `country:SIMPLE,ts:TIMESTAMP`, joined in that order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.keys.complex import key_of_all
from penstock.keys.generator import PARTITION_PATH_OPTION, KeyColumns, KeySettings
from penstock.keys.names import CUSTOM, split_typed_field
from penstock.keys.text import joined, partition_path, plain_folder
from penstock.keys.timestamp import time_folder


@dataclass(frozen=True)
class CustomKeyGenerator:
    settings: KeySettings
    java_class: ClassVar[str] = CUSTOM

    def columns(self, schema: StructType) -> KeyColumns:
        key, plain_key = key_of_all(schema, self.settings)
        fields = typed_fields(self.settings)
        names = tuple(name for name, _ in fields)
        only_simple = all(kind == "SIMPLE" for _, kind in fields)
        return KeyColumns(
            record_key=key,
            partition_path=_path(schema, fields, self.settings),
            plain_record_key=plain_key,
            plain_partition_path=plain_folder(schema, names, self.settings) if only_simple else None,
            record_key_fields=self.settings.record_key_fields,
            partition_path_fields=names,
        )


def typed_fields(settings: KeySettings) -> tuple[tuple[str, str], ...]:
    """Give name and type of each partition path field.

    Raises:
        OptionError: one is not `name:SIMPLE` or `name:TIMESTAMP`.
    """
    return tuple(_typed(field) for field in settings.partition_path_fields if field.strip())


def _typed(field: str) -> tuple[str, str]:
    typed = split_typed_field(field)
    if typed is None:
        raise OptionError(
            f"Unable to find field names for partition path in proper format: {PARTITION_PATH_OPTION} has {field!r}. "
            f"Fix: write {field.partition(':')[0].strip() or 'column'}:SIMPLE or ...:TIMESTAMP, "
            "at each write, because tables store the names without the types."
        )
    return typed


def _path(schema: StructType, fields: tuple[tuple[str, str], ...], settings: KeySettings) -> Column:
    if not fields:
        return partition_path(schema, (), settings)
    folders = [
        time_folder(schema, name, settings) if kind == "TIMESTAMP" else partition_path(schema, (name,), settings)
        for name, kind in fields
    ]
    return joined(folders)

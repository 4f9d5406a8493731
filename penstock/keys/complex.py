"""ComplexKeyGenerator: any number of record key and partition path fields.

A single key field is written as its bare value, as Hudi 0.15.0 does, or as `field:value`, as releases before 0.14.1 and
after 0.15.0 do: a table has one of the two forms, and `KeySettings.encode_single_complex_key` says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql.types import StructType

from penstock.keys.generator import KeyColumns, KeySettings
from penstock.keys.names import COMPLEX
from penstock.keys.text import bare_key, in_folders_of, labelled_key


@dataclass(frozen=True)
class ComplexKeyGenerator:
    settings: KeySettings
    java_class: ClassVar[str] = COMPLEX

    def columns(self, schema: StructType) -> KeyColumns:
        fields = self.settings.partition_path_fields
        label_one = self.settings.encode_single_complex_key
        key = key_of_all(schema, self.settings, label_one=label_one)
        return in_folders_of(schema, fields, self.settings, key)


def key_of_all(schema: StructType, settings: KeySettings, *, label_one: bool = False) -> tuple[Column | None, str | None]:
    """Give the key of all key fields and its plain column; a single one is labelled only on demand."""
    fields = settings.record_key_fields
    if not fields:
        return None, None
    if len(fields) == 1 and not label_one:
        return bare_key(schema, fields[0], settings)
    return labelled_key(schema, fields, settings), None

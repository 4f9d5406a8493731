"""NonpartitionedKeyGenerator: any number of record key fields, all rows in the base path itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql.types import StructType

from penstock.keys.complex import key_of_all
from penstock.keys.generator import KeyColumns, KeySettings
from penstock.keys.names import NONPARTITIONED
from penstock.keys.text import in_folders_of


@dataclass(frozen=True)
class NonpartitionedKeyGenerator:
    settings: KeySettings
    java_class: ClassVar[str] = NONPARTITIONED

    def columns(self, schema: StructType) -> KeyColumns:
        return in_folders_of(schema, (), self.settings, key_of_all(schema, self.settings))

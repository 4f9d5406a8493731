"""NonpartitionedKeyGenerator: any number of record key fields, all rows in the base path itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql.types import StructType

from penstock.keys.complex import key_of_all
from penstock.keys.model import KeyColumns, KeySettings
from penstock.keys.names import NONPARTITIONED
from penstock.keys.texts import partition_path


@dataclass(frozen=True)
class NonpartitionedKeyGenerator:
    settings: KeySettings
    java_class: ClassVar[str] = NONPARTITIONED

    def columns(self, schema: StructType) -> KeyColumns:
        key, plain_key = key_of_all(schema, self.settings)
        return KeyColumns(
            record_key=key,
            partition_path=partition_path(schema, (), self.settings),
            plain_record_key=plain_key,
            plain_partition_path=None,
            record_key_fields=self.settings.record_key_fields,
            partition_path_fields=(),
        )

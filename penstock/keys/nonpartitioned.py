"""NonpartitionedKeyGenerator: any number of record key fields. All rows are in the base path itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql.types import StructType

from penstock.keys.generator import KeyColumns, KeySettings
from penstock.keys.partition_path_column import make_key_columns
from penstock.keys.record_key_column import key_of_all_fields
from penstock.options.key_generator_names import NONPARTITIONED


@dataclass(frozen=True)
class NonpartitionedKeyGenerator:
    """A key generator for any number of record key fields, with an empty partition path."""

    settings: KeySettings
    java_class: ClassVar[str] = NONPARTITIONED

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the Spark expressions for the record key of rows with this schema, and for the partition path, which is empty.

        Raises:
            SchemaError: a field is missing, occurs twice, or has a type that cannot be part of a key.
        """
        return make_key_columns(schema, (), self.settings, key_of_all_fields(schema, self.settings))

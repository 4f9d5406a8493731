"""ComplexKeyGenerator: any number of record key and partition path fields.

A single key field is written as its bare value, as Hudi 0.15.0 does, or as `field:value`, as releases before 0.14.1 and after
0.15.0 do. A table has one of the two forms; `KeySettings.encode_single_complex_key` says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql.types import StructType

from penstock.keys.generator import KeyColumns, KeySettings
from penstock.keys.partition_path_column import make_key_columns
from penstock.keys.record_key_column import key_of_all_fields
from penstock.options.key_generator_names import COMPLEX


@dataclass(frozen=True)
class ComplexKeyGenerator:
    """A key generator for any number of record key fields (`f1:v1,f2:v2`) and partition path fields (`v1/v2`)."""

    settings: KeySettings
    java_class: ClassVar[str] = COMPLEX

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the Spark expressions for the record key, `f1:v1,f2:v2`, and the partition path, with one folder per field.

        Raises:
            SchemaError: a field is missing, occurs twice, or has a type that cannot be part of a key.
        """
        key = key_of_all_fields(schema, self.settings, label_single=self.settings.encode_single_complex_key)
        return make_key_columns(schema, self.settings.partition_path_fields, self.settings, key)

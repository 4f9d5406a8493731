"""GlobalDeleteKeyGenerator: record keys without partition paths, for deletes whose rows a global index locates.

Keys have the form `field:value`, even if there is only one field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.keys.generator import RECORD_KEY_OPTION, KeyColumns, KeySettings
from penstock.keys.partition_path_column import make_key_columns
from penstock.keys.record_key_column import key_of_all_fields
from penstock.options.key_generator_names import GLOBAL_DELETE


@dataclass(frozen=True)
class GlobalDeleteKeyGenerator:
    """A key generator for deletes: any number of record key fields, with an empty partition path."""

    settings: KeySettings
    java_class: ClassVar[str] = GLOBAL_DELETE

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the Spark expressions for the record key of rows with this schema, and for the partition path, which is empty.

        Raises:
            OptionError: the settings name no key field.
            SchemaError: a field is missing, occurs twice, or has a type that cannot be part of a key.
        """
        if not self.settings.record_key_fields:
            raise OptionError(f"the GlobalDeleteKeyGenerator needs {RECORD_KEY_OPTION}: generated keys cannot be deleted by it.")
        key = key_of_all_fields(schema, self.settings, label_single=True)
        return make_key_columns(schema, (), self.settings, key)

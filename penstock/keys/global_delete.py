"""GlobalDeleteKeyGenerator: record keys without partition paths, for deletes that a global index locates.

Keys have the form `field:value`, also those of a single field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.keys.generator import RECORD_KEY_OPTION, KeyColumns, KeySettings
from penstock.keys.partition_path_column import make_key_columns
from penstock.keys.record_key_column import key_of_all_fields
from penstock.options.key_generators import GLOBAL_DELETE


@dataclass(frozen=True)
class GlobalDeleteKeyGenerator:
    """Record keys without partition paths."""

    settings: KeySettings
    java_class: ClassVar[str] = GLOBAL_DELETE

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the expressions for rows of this schema."""
        if not self.settings.record_key_fields:
            raise OptionError(f"the GlobalDeleteKeyGenerator needs {RECORD_KEY_OPTION}: generated keys cannot be deleted by it.")
        key = key_of_all_fields(schema, self.settings, label_single=True)
        return make_key_columns(schema, (), self.settings, key)

"""GlobalDeleteKeyGenerator: record keys without partition paths, for deletes that a global index finds.

Keys have the form `field:value`, also those of a single field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.keys.complex import key_of_all
from penstock.keys.generator import RECORD_KEY_OPTION, KeyColumns, KeySettings
from penstock.keys.names import GLOBAL_DELETE
from penstock.keys.text import in_folders_of


@dataclass(frozen=True)
class GlobalDeleteKeyGenerator:
    settings: KeySettings
    java_class: ClassVar[str] = GLOBAL_DELETE

    def columns(self, schema: StructType) -> KeyColumns:
        if not self.settings.record_key_fields:
            raise OptionError(f"the GlobalDeleteKeyGenerator needs {RECORD_KEY_OPTION}: generated keys cannot be deleted by it.")
        key, _ = key_of_all(schema, self.settings, label_one=True)
        return in_folders_of(schema, (), self.settings, (key, None))

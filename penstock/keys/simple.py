"""SimpleKeyGenerator: one record key field, one partition path field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.keys.generator import PARTITION_PATH_OPTION, RECORD_KEY_OPTION, KeyColumns, KeySettings
from penstock.keys.names import SIMPLE
from penstock.keys.text import bare_key, in_folders_of


@dataclass(frozen=True)
class SimpleKeyGenerator:
    settings: KeySettings
    java_class: ClassVar[str] = SIMPLE

    def columns(self, schema: StructType) -> KeyColumns:
        key = single_key(schema, self.settings)
        fields = (single_field(self.settings.partition_path_fields, "partition-path"),)
        return in_folders_of(schema, fields, self.settings, key)


def single_key(schema: StructType, settings: KeySettings) -> tuple[Column | None, str | None]:
    """Give the key of the one field, and its plain column if it has one; both None when keys are generated."""
    if not settings.record_key_fields:
        return None, None
    return bare_key(schema, single_field(settings.record_key_fields, "record-key"), settings)


def single_field(fields: Sequence[str], role: str) -> str:
    """Give the one field.

    Raises:
        OptionError: there are several or none.
    """
    if len(fields) == 1:
        return fields[0]
    option = RECORD_KEY_OPTION if role == "record-key" else PARTITION_PATH_OPTION
    other = "ComplexKeyGenerator" if fields else "NonpartitionedKeyGenerator"
    raise OptionError(
        f"Single {role} field is expected; provided ({', '.join(fields)}). "
        f"Fix: name one column in {option}, or use the {other} (chosen by itself when no key generator is set)."
    )

"""SimpleKeyGenerator: one record key field, one partition path field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.keys.generator import PARTITION_PATH_OPTION, RECORD_KEY_OPTION, KeyColumns, KeySettings
from penstock.keys.partition_path_column import make_key_columns
from penstock.keys.record_key_column import bare_key
from penstock.options.key_generator_names import SIMPLE


@dataclass(frozen=True)
class SimpleKeyGenerator:
    """A key generator for one record key field and one partition path field."""

    settings: KeySettings
    java_class: ClassVar[str] = SIMPLE

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the Spark expressions for the record key and the partition path: the values of the two fields, as strings.

        Raises:
            SchemaError: a field is missing, occurs twice, or has a type that cannot be part of a key.
            OptionError: the settings name several fields of a kind.
        """
        key = key_of_single_field(schema, self.settings)
        fields = (check_single_field(self.settings.partition_path_fields, "partition-path"),)
        return make_key_columns(schema, fields, self.settings, key)


def key_of_single_field(schema: StructType, settings: KeySettings) -> tuple[Column | None, str | None]:
    """Return the expression of the record key for a generator that allows one key field, and the key's plain column.

    The plain column is the name of a string column that already holds the key; None if there is none. Both are None if the
    settings name no key field: then the writer generates keys. The expression raises RecordKeyError for a row whose key field is
    null or empty.

    Raises:
        OptionError: the settings name several key fields.
    """
    if not settings.record_key_fields:
        return None, None
    return bare_key(schema, check_single_field(settings.record_key_fields, "record-key"), settings)


def check_single_field(fields: Sequence[str], role: str) -> str:
    """Return the only field of `fields`.

    Args:
        role: `record-key` or `partition-path`, for the error message.

    Raises:
        OptionError: there are several fields, or none.
    """
    if len(fields) == 1:
        return fields[0]
    option = RECORD_KEY_OPTION if role == "record-key" else PARTITION_PATH_OPTION
    fitting = "ComplexKeyGenerator" if fields else "NonpartitionedKeyGenerator"
    raise OptionError(
        f"Single {role} field is expected; provided ({', '.join(fields)}). "
        f"Fix: name one column in {option}, or use the {fitting} (chosen by itself when no key generator is set)."
    )

"""SqlKeyGenerator: what SQL statements put around the table's own generator.

It changes one thing: a timestamp in the partition path is written as `yyyy-MM-dd HH:mm:ss`, in the session's zone and
always escaped. Generators that print times themselves are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from penstock.keys.column import Field, find_field
from penstock.keys.complex import ComplexKeyGenerator
from penstock.keys.generator import PARTITION_PATH_OPTION, KeyColumns, KeyGenerator, KeySettings
from penstock.keys.names import COMPLEX, SIMPLE
from penstock.keys.text import folder, joined, text_of

_SECONDS_TEXT = 19


@dataclass(frozen=True)
class SqlKeyGenerator:
    settings: KeySettings
    origin: KeyGenerator

    @property
    def java_class(self) -> str:
        """The origin's: the wrapper is never stored in a table."""
        return self.origin.java_class

    def columns(self, schema: StructType) -> KeyColumns:
        columns = self.origin.columns(schema)
        fields = [find_field(schema, name, option=PARTITION_PATH_OPTION) for name in columns.partition_path_fields]
        if self.origin.java_class not in (SIMPLE, COMPLEX) or not any(_is_timestamp(field) for field in fields):
            return columns
        folders = [_folder(field, self.settings) for field in fields]
        return replace(columns, partition_path=joined(folders), plain_partition_path=None)


def wrapped_by_sql(settings: KeySettings, origin: KeyGenerator | None) -> SqlKeyGenerator:
    """Wrap the origin; without one, Hudi takes the complex generator."""
    return SqlKeyGenerator(settings, origin or ComplexKeyGenerator(settings))


def _is_timestamp(field: Field) -> bool:
    return isinstance(field.type, (TimestampType, TimestampNTZType))


def _folder(field: Field, settings: KeySettings) -> Column:
    if not _is_timestamp(field):
        return folder(field.name, text_of(field, settings, option=PARTITION_PATH_OPTION), settings)
    text = F.substring(field.column.cast("string"), 1, _SECONDS_TEXT)
    return folder(field.name, text, replace(settings, url_encode=True))

"""SqlKeyGenerator: the wrapper that Hudi's SQL statements put around the table's own key generator.

It changes one thing: a timestamp in the partition path is written as `yyyy-MM-dd HH:mm:ss`, in the session's zone and always
escaped. Generators that print times themselves are left unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from penstock.errors import OptionError
from penstock.keys.field import Field, find_field
from penstock.keys.generator import PARTITION_PATH_OPTION, SQL_ORIGIN_OPTION, KeyColumns, KeyGenerator, KeySettings
from penstock.keys.make_generator import find_generator_class, make_key_generator
from penstock.keys.partition_path_column import join_folders, make_folder
from penstock.keys.value_text import text_of
from penstock.options.key_generator_names import COMPLEX, SIMPLE, SQL

#: Characters of `yyyy-MM-dd HH:mm:ss`.
_SECONDS_TEXT = 19


@dataclass(frozen=True)
class SqlKeyGenerator:
    """A key generator that wraps another one, the origin. It only changes how timestamps are printed in partition paths."""

    settings: KeySettings

    def __post_init__(self) -> None:
        _ = self.origin  # raises now if the settings name no generator that can be wrapped

    @cached_property
    def origin(self) -> KeyGenerator:
        """The wrapped generator, which the option `hoodie.sql.origin.keygen.class` names.

        If the option is not set, it is the complex generator, as in Hudi.

        Raises:
            OptionError: the option names this class itself.
        """
        java_class = COMPLEX
        if self.settings.sql_origin_class:
            java_class = find_generator_class(self.settings.sql_origin_class, option=SQL_ORIGIN_OPTION)
        if java_class == SQL:
            raise OptionError(f"{SQL_ORIGIN_OPTION}={java_class}: the SQL key generator cannot wrap itself.")
        return make_key_generator(replace(self.settings, generator_class=java_class))

    @property
    def java_class(self) -> str:
        """The Java class name of the wrapped generator, because `hoodie.properties` never stores the name of this class."""
        return self.origin.java_class

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the Spark expressions of the wrapped generator, with timestamps printed as `yyyy-MM-dd HH:mm:ss` in the path."""
        columns = self.origin.make_columns(schema)
        fields = [find_field(schema, name, option=PARTITION_PATH_OPTION) for name in columns.partition_path_fields]
        if self.origin.java_class not in (SIMPLE, COMPLEX) or not any(_is_timestamp(field) for field in fields):
            return columns
        folders = [_make_folder(field, self.settings) for field in fields]
        return replace(columns, partition_path=join_folders(folders), plain_partition_path=None)


def _is_timestamp(field: Field) -> bool:
    """Whether the field is a Spark timestamp, with or without a time zone."""
    return isinstance(field.type, (TimestampType, TimestampNTZType))


def _make_folder(field: Field, settings: KeySettings) -> Column:
    """Return an expression for the folder name of a partition path field. A timestamp is cut to whole seconds and escaped."""
    if not _is_timestamp(field):
        return make_folder(field.name, text_of(field, settings, option=PARTITION_PATH_OPTION), settings)
    text = F.substring(field.column.cast("string"), 1, _SECONDS_TEXT)
    return make_folder(field.name, text, replace(settings, url_encode=True))

"""The interface of key generators: `KeyGenerator` turns `KeySettings` and a schema into `KeyColumns`.

This module imports pyspark for annotations only, so that settings can be made and compared without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

RECORD_KEY_OPTION = "hoodie.datasource.write.recordkey.field"
PARTITION_PATH_OPTION = "hoodie.datasource.write.partitionpath.field"
GENERATOR_CLASS_OPTION = "hoodie.datasource.write.keygenerator.class"
GENERATOR_TYPE_OPTION = "hoodie.datasource.write.keygenerator.type"
CONSISTENT_TIMESTAMP_OPTION = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
SQL_ORIGIN_OPTION = "hoodie.sql.origin.keygen.class"
TIMEBASED_PREFIX = "hoodie.keygen.timebased."


@dataclass(frozen=True)
class KeySettings:
    """The options and table properties that determine record keys and partition paths.

    If `record_key_fields` is empty, the writer generates keys. For the custom generator `partition_path_fields` have a suffix
    `:TYPE`. `timebased` holds the options `hoodie.keygen.timebased.*` without that prefix.
    """

    #: Empty: the writer generates keys.
    record_key_fields: tuple[str, ...] = ()
    #: As the option names them: for the custom generator with `:TYPE` suffixes.
    partition_path_fields: tuple[str, ...] = ()
    generator_class: str | None = None
    generator_type: str | None = None
    hive_style: bool = False
    url_encode: bool = False
    consistent_logical_timestamp: bool = False
    #: `hoodie.keygen.timebased.*` without that prefix, for example `timestamp.type`.
    timebased: Mapping[str, str] = field(default_factory=dict)
    #: Whether the complex generator writes `field:value` for a single field too, as some Hudi releases do.
    encode_single_complex_key: bool = False
    #: `hoodie.sql.origin.keygen.class`: the generator that the SQL generator wraps.
    sql_origin_class: str | None = None


@dataclass(frozen=True, eq=False)
class KeyColumns:
    """The Spark expressions for the record key and partition path of a row, and the columns that they come from.

    A `plain_…` name is a top-level string column that already holds the key or path. The writer then sends that column to Python
    instead of a second column with the same text. The code that reads the plain column does what the expression would do: raise
    for a null or empty record key (`key_errors.missing_key`), and write the default partition for a null or empty partition
    value.
    """

    #: None: the writer generates keys, `<instant>_<task>_<row>`.
    record_key: Column | None
    partition_path: Column
    plain_record_key: str | None
    plain_partition_path: str | None
    record_key_fields: tuple[str, ...]
    #: Column names, without the custom generator's types; empty for a non-partitioned table.
    partition_path_fields: tuple[str, ...]


class KeyGenerator(Protocol):
    """Makes Spark expressions for record keys and partition paths. Each generator has its own module.

    `GENERATORS` in `penstock/options/key_generator_names.py` lists them.
    """

    @property
    def java_class(self) -> str:
        """The Java class name of the generator, as `hoodie.properties` stores it."""
        ...

    def make_columns(self, schema: StructType) -> KeyColumns:
        """Return the expressions for the record key and partition path of rows with this schema.

        Raises:
            SchemaError: a field is missing, occurs twice, or has a type that cannot be part of a key.
            OptionError: the settings do not fit this generator.
        """
        ...

"""Resolves and checks the settings and schema of a new table, before `Table.create` writes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock import options as o
from penstock.api.incoming_rows import is_spark_frame
from penstock.errors import OptionError, SchemaError
from penstock.keys import make_key_generator
from penstock.options import read_options
from penstock.schema import META_COLUMNS, arrow_to_avro, avro_text, avro_to_spark
from penstock.write.rows.schema import check_column_names, check_columns, drop_partition_columns, evolve_schema
from penstock.write.settings import WriteSettings, resolve_settings

Names: TypeAlias = "str | Sequence[str]"
#: What `Table.create` takes as columns: a Spark schema, a DataFrame that has them, a DDL string, or an Arrow schema.
Columns: TypeAlias = "StructType | DataFrame | str | pa.Schema"


def decide_new_table(spark: SparkSession, schema: Columns, given: Mapping[str, object]) -> tuple[WriteSettings, str]:
    """Return the settings and the Avro schema (as JSON) of a new table, after checking that the columns fit the settings.

    Args:
        schema: the columns, in one of the forms that `Table.create` takes.
        given: the options of the new table, by their keys. The table's name is among them.

    Raises:
        SchemaError: a key, partition or ordering column is not among the columns, or a column cannot be stored.
        OptionError: an option is invalid.
    """
    options = read_options(given)
    struct = _struct(spark, schema, str(given[o.TABLE_NAME.key]))
    settings = resolve_settings(options, None, frozenset(struct.names))
    check_column_names(struct.names)
    check_columns(struct)
    make_key_generator(settings.keys).make_columns(struct)
    ordering = options[o.PRECOMBINE_FIELD] if options.is_set(o.PRECOMBINE_FIELD) else None
    if ordering and ordering.split(".")[0] not in struct.names:
        raise SchemaError(f"ordering column {ordering!r} is not among the columns {', '.join(struct.names)}")
    return settings, avro_text(drop_partition_columns(evolve_schema(struct, settings, None), settings))


def check_record_key(names: Names | None) -> None:
    """Raise OptionError if the record key is an empty list or string."""
    if names is not None and joined(names) is None:
        raise OptionError(f"record_key is {names!r}; name the columns that identify a row, or pass None to generate keys")


def joined(names: Names | None) -> str | None:
    """Return one or several column names as a comma-separated string, as options expect it; None if there are no names."""
    listed = [names] if isinstance(names, str) else list(names or ())
    return ",".join(listed) or None


def _struct(spark: SparkSession, schema: Columns, name: str) -> StructType:
    """Return the columns of a new table as a Spark schema, without meta columns.

    Args:
        schema: the columns, in one of the forms that `Table.create` takes.
        name: the table's name, which the Avro schema needs.

    Raises:
        OptionError: the schema has another form.
    """
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, pa.Schema):
        return StructType.fromJson(avro_to_spark(arrow_to_avro(schema, name)))
    if not isinstance(schema, str) and not is_spark_frame(schema):
        raise OptionError(
            f"schema cannot be of the type {type(schema).__module__.split('.')[0]}.{type(schema).__name__}: pass a schema or "
            "DataFrame of Spark, a DDL string, or an Arrow schema such as pyarrow.Schema.from_pandas(frame)"
        )
    found = spark.createDataFrame([], schema).schema if isinstance(schema, str) else schema.schema
    return StructType([f for f in found if f.name not in META_COLUMNS])

"""Conversions between the Avro, Arrow and Spark forms of a schema.

Each form is converted to the model of `model.py` and from it, so that a fourth form needs two functions, not six. The Avro form
follows Hudi's conventions to the letter: record `<table>_record` in namespace `hoodie.<table>`, nested records named after
their field inside the full name of their parent, nullable columns as `["null", T]` with default null, decimals as fixed. The
Spark form is the JSON of a `StructType`.

Columns that Avro cannot hold raise a `SchemaError` that names the column: names that are no Avro names, maps whose keys are not
strings, columns that are only null, intervals, variants.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.schema.arrow import arrow_to_struct, struct_to_arrow
from penstock.schema.avro import Avro, AvroRecord, avro_to_struct, struct_to_avro
from penstock.schema.model import check_names, make_nullable
from penstock.schema.spark import SparkStruct, spark_to_struct, struct_to_spark


def arrow_to_avro(schema: pa.Schema, table_name: str) -> AvroRecord:
    """Return the Avro schema of a table with these columns.

    Raises:
        SchemaError: a column has a name or a type that a Hudi table cannot hold, or two columns have the same name.
    """
    struct = arrow_to_struct(schema)
    check_names(struct)
    return struct_to_avro(struct, _full_name(table_name))


def spark_to_avro(struct: Mapping[str, Any], table_name: str) -> AvroRecord:
    """Return the Avro schema of a table with the columns of this Spark struct (`DataFrame.schema.jsonValue()`).

    Raises:
        SchemaError: as for `arrow_to_avro`.
    """
    columns = spark_to_struct(struct)
    check_names(columns)
    return struct_to_avro(columns, _full_name(table_name))


def avro_to_arrow(avro: Avro) -> pa.Schema:
    """Return the Arrow schema in which the kernels hold rows of this Avro schema.

    Raises:
        SchemaError: it is not the Avro schema of a record, or has a type that a table cannot have.
    """
    return pa.schema(struct_to_arrow(avro_to_struct(avro)))


def spark_to_arrow(struct: Mapping[str, Any]) -> pa.Schema:
    """Return the Arrow schema in which workers return rows with these columns to Spark.

    Raises:
        SchemaError: a column has a type that a table cannot have.
    """
    return pa.schema(struct_to_arrow(spark_to_struct(struct)))


def avro_to_spark(avro: Avro) -> SparkStruct:
    """Return the JSON form of this schema's Spark struct, for `StructType.fromJson`.

    Raises:
        SchemaError: as for `avro_to_arrow`.
    """
    return struct_to_spark(avro_to_struct(avro))


def with_storage_types(schema: pa.Schema) -> pa.Schema:
    """Return the same columns with the types that base files hold, so that every reader understands them.

    All columns are nullable. Integers of 8 and 16 bits become 32 bits wide. Timestamps are in microseconds (milliseconds stay),
    and in UTC unless they have no zone. Dictionary encodings and large offsets are removed. The child of a list is called
    `element`.

    Raises:
        SchemaError: a column has a type that a table cannot have.
    """
    return pa.schema(struct_to_arrow(make_nullable(arrow_to_struct(schema))))


def record_names(table_name: str) -> tuple[str, str]:
    """Return the name and the namespace of a table's Avro record. Characters that Avro refuses become `__`, as in Hudi."""
    name = re.sub(r"[^A-Za-z0-9_]", "__", re.sub(r"^[^A-Za-z_]", "__", table_name))
    return f"{name}_record", f"hoodie.{name}"


def _full_name(table_name: str) -> str:
    name, namespace = record_names(table_name)
    return f"{namespace}.{name}"

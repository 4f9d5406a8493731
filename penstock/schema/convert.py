"""Converts between the Avro, Arrow and Spark forms of a schema.

Each conversion goes through the classes of `model.py`, so each form needs only two functions: to these classes and back. The Avro
form follows Hudi's conventions exactly. The record is `<table>_record` in namespace `hoodie.<table>`. A nested record has the
name of its field, and the full name of its parent as namespace. A nullable column is `["null", T]` with default null. A decimal
has the Avro type fixed. The Spark form is the JSON of a `StructType`.

A column that Avro cannot hold raises a `SchemaError` that names the column: its name is not an Avro name, or its type is a map
with keys that are not strings, the null type, an interval or a variant.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.schema.arrow import arrow_to_struct, struct_to_arrow
from penstock.schema.avro import Avro, AvroRecord, avro_text, avro_to_struct, struct_to_avro
from penstock.schema.model import check_names, make_nullable
from penstock.schema.spark import SparkStruct, spark_to_struct, struct_to_spark


def arrow_to_avro(schema: pa.Schema, table_name: str) -> AvroRecord:
    """Return the Avro schema of a table with the columns of this Arrow schema.

    Raises:
        SchemaError: a column has a name or a type that a Hudi table cannot hold, or two columns have the same name.
    """
    struct = arrow_to_struct(schema)
    check_names(struct)
    return struct_to_avro(struct, _full_name(table_name))


def spark_to_avro(struct: Mapping[str, Any], table_name: str) -> AvroRecord:
    """Return the Avro schema of a table with the columns of this Spark struct (`DataFrame.schema.jsonValue()`).

    Raises:
        SchemaError: a column has a name or a type that a Hudi table cannot hold, or two columns have the same name.
    """
    columns = spark_to_struct(struct)
    check_names(columns)
    return struct_to_avro(columns, _full_name(table_name))


def avro_to_arrow(avro: Avro) -> pa.Schema:
    """Return the Arrow schema in which Penstock holds rows of this Avro schema in memory.

    Raises:
        SchemaError: the argument is not the Avro schema of a record, or has a type that a table cannot have.
    """
    return _text_to_arrow(avro if isinstance(avro, str) else avro_text(avro))


@functools.lru_cache(maxsize=64)
def _text_to_arrow(text: str) -> pa.Schema:
    """Return the Arrow schema of an Avro schema given as JSON.

    The result is cached, because tasks need the same schema many times for each file.
    """
    return pa.schema(struct_to_arrow(avro_to_struct(text)))


def spark_to_arrow(struct: Mapping[str, Any]) -> pa.Schema:
    """Convert a Spark struct (`StructType.jsonValue()`) to an Arrow schema. Python workers return rows to Spark in this schema.

    Raises:
        SchemaError: a column has a type that a table cannot have.
    """
    return pa.schema(struct_to_arrow(spark_to_struct(struct)))


def avro_to_spark(avro: Avro) -> SparkStruct:
    """Convert an Avro schema to the JSON form of a Spark struct, for `StructType.fromJson`.

    Raises:
        SchemaError: the argument is not the Avro schema of a record, or has a type that a table cannot have.
    """
    return struct_to_spark(avro_to_struct(avro))


def with_storage_types(schema: pa.Schema) -> pa.Schema:
    """Return the schema with each column in the type that Penstock writes to base files, which every Hudi reader can read.

    All columns are nullable. Integers of 8 and 16 bits become 32 bits wide. Timestamps become microseconds (but milliseconds
    stay); those with a zone become UTC. Dictionary types become their value types, large types become the normal ones. The
    child of a list is named `element`.

    Raises:
        SchemaError: a column has a type that a table cannot have.
    """
    return pa.schema(struct_to_arrow(make_nullable(arrow_to_struct(schema))))


def record_names(table_name: str) -> tuple[str, str]:
    """Return the name and the namespace of a table's Avro record. Characters that Avro refuses become `__`, as in Hudi."""
    name = re.sub(r"[^A-Za-z0-9_]", "__", re.sub(r"^[^A-Za-z_]", "__", table_name))
    return f"{name}_record", f"hoodie.{name}"


def _full_name(table_name: str) -> str:
    """Return the namespace and name of a table's Avro record, such as `hoodie.trips.trips_record`."""
    name, namespace = record_names(table_name)
    return f"{namespace}.{name}"

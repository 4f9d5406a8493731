"""The schema of a table in its three forms: Avro (on disk), Arrow (in the kernels), Spark (at the door).

Kernel: schemas in, schemas out. Each form is read into one small model (`model.py`) and written from it, so there are
six conversions and no pairs. The Avro form follows Hudi's conventions to the letter: record ``<table>_record`` in
namespace ``hoodie.<table>``, nested records named after their field inside the full name of their parent, nullable as
``["null", T]`` with default null, decimals as fixed. The Spark form is the JSON of a ``StructType``.

`evolve` decides which schema a write leaves behind, given the table's and that of the incoming rows.

What Avro cannot hold is refused with a `SchemaError` that names the column: names that are no Avro names, maps whose
keys are not strings, columns that are only null, intervals, variants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.schema.arrow import arrow_to_struct, struct_to_arrow
from penstock.schema.avro import Avro, AvroRecord, avro_to_struct, parse_avro, struct_to_avro
from penstock.schema.evolution import Merge
from penstock.schema.model import all_nullable, checked, nameless
from penstock.schema.spark import SparkStruct, spark_to_struct, struct_to_spark

META_COLUMNS: tuple[str, ...] = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
OPERATION_COLUMN = "_hoodie_operation"  # a sixth one, in tables that keep changelogs

_UNNAMED = "topLevelRecord"


def arrow_to_avro(schema: pa.Schema, table_name: str) -> AvroRecord:
    """The Avro schema of a table with these columns.

    Raises:
        SchemaError: a column has a name or a type that a Hudi table cannot hold, or a name stands twice.
    """
    name, namespace = record_names(table_name)
    return struct_to_avro(checked(arrow_to_struct(schema)), f"{namespace}.{name}")


def avro_to_arrow(avro: Avro) -> pa.Schema:
    """The Arrow schema in which the kernels hold rows of this table.

    Raises:
        SchemaError: it is no Avro schema of a record, or has a type that a table cannot have.
    """
    return pa.schema(struct_to_arrow(avro_to_struct(avro)))


def spark_to_avro(struct: Mapping[str, Any], table_name: str) -> AvroRecord:
    """The Avro schema of a table with the columns of this Spark struct (``DataFrame.schema.jsonValue()``).

    Raises:
        SchemaError: as for `arrow_to_avro`.
    """
    name, namespace = record_names(table_name)
    return struct_to_avro(checked(spark_to_struct(struct)), f"{namespace}.{name}")


def avro_to_spark(avro: Avro) -> SparkStruct:
    """The JSON form of the Spark struct of this table, for ``StructType.fromJson``.

    Raises:
        SchemaError: as for `avro_to_arrow`.
    """
    return struct_to_spark(avro_to_struct(avro))


def spark_to_arrow(struct: Mapping[str, Any]) -> pa.Schema:
    """The Arrow schema in which rows with these columns are handed to Spark.

    Raises:
        SchemaError: a column has a type that a table cannot have.
    """
    return pa.schema(struct_to_arrow(spark_to_struct(struct)))


def with_storage_types(schema: pa.Schema) -> pa.Schema:
    """The same columns as base files hold them, so that every reader understands them.

    Everything is nullable, small integers are 32 bits wide, timestamps are in microseconds (milliseconds stay) and in
    UTC unless they have no zone, encodings and large offsets are gone, the child of a list is called ``element``.

    Raises:
        SchemaError: a column has a type that a table cannot have.
    """
    return pa.schema(struct_to_arrow(all_nullable(arrow_to_struct(schema))))


def record_names(table_name: str) -> tuple[str, str]:
    """Name and namespace of the Avro record of a table; characters that Avro does not know become ``__``."""
    name = re.sub(r"[^A-Za-z0-9_]", "__", re.sub(r"^[^A-Za-z_]", "__", table_name))
    return f"{name}_record", f"hoodie.{name}"


def with_meta_columns(avro: Avro) -> AvroRecord:
    """The schema of the files: the five meta columns first, then the operation column, if there is one."""
    bare = without_meta_columns(avro)
    meta = [_meta_column(name) for name in META_COLUMNS]
    return {**bare, "fields": [*meta, *([_meta_column(OPERATION_COLUMN)] if has_operation_column(avro) else []), *bare["fields"]]}


def _meta_column(name: str) -> AvroRecord:
    return {"name": name, "type": ["null", "string"], "doc": "", "default": None}


def with_operation_column(avro: Avro) -> AvroRecord:
    """The schema of a table that keeps what was done to each row: with the operation column, in front of the others."""
    bare = without_meta_columns(avro)
    return {**bare, "fields": [_meta_column(OPERATION_COLUMN), *bare["fields"]]}


def has_operation_column(avro: Avro) -> bool:
    """Whether rows of this schema have the operation column."""
    return any(column["name"] == OPERATION_COLUMN for column in parse_avro(avro)["fields"])


def without_meta_columns(avro: Avro) -> AvroRecord:
    """The schema of the table: what the user wrote, without any meta column."""
    record = parse_avro(avro)
    kept = [column for column in record["fields"] if column["name"] not in (*META_COLUMNS, OPERATION_COLUMN)]
    return {**record, "fields": kept}


def avro_text(avro: Avro) -> str:
    """The schema as Hudi writes it into commits, footers and properties: JSON without spaces."""
    return json.dumps(parse_avro(avro), separators=(",", ":"), ensure_ascii=False)


def with_meta_columns_text(avro: Avro) -> str:
    """The schema of the files as JSON."""
    return avro_text(with_meta_columns(avro))


def evolve(
    table: Avro | None,
    incoming: Avro,
    *,
    set_null_for_missing: bool,
    allow_drop: bool,
    reconcile: bool,
    validate: bool,
) -> AvroRecord:
    """The schema that a write of `incoming` rows leaves behind, without meta columns.

    Columns are matched by name at every depth. A shared one is nullable if either side is; incoming values are cast up
    to the table's type where that is a legal promotion, and the table's type widens to the incoming one where files
    written before can still be read so (int → long → float → double). New columns are accepted, and nullable, since
    rows written before hold null there. Columns stand in the incoming order. A column of the table that is missing is

    - filled with null if `reconcile`, and then what the table knew keeps the table's order;
    - filled with null if `set_null_for_missing`, in the table's order, unless `allow_drop` or `validate` is set;
    - dropped from the table if `allow_drop`;
    - an error otherwise.

    Raises:
        SchemaError: columns are missing or have types that do not fit; the message lists all of them and what helps.
    """
    named = avro_to_struct(without_meta_columns(incoming))
    rows = checked(nameless(named))
    if table is None:
        return struct_to_avro(rows, named.full_name or _UNNAMED)
    old = avro_to_struct(without_meta_columns(table))
    fills_by_option = set_null_for_missing and not allow_drop and not validate
    merge = Merge(
        fills=reconcile or fills_by_option,
        drops=allow_drop,
        table_order=fills_by_option and not reconcile,
    )
    merged = merge.structs(old, rows)
    merge.raise_if_unfit()
    return struct_to_avro(merged, old.full_name or _UNNAMED)


def column_defaults(avro: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The columns of an Avro schema whose default is not null, with it; columns of several values have none here."""
    defaults = ((field["name"], field.get("default")) for field in avro["fields"])
    return tuple((name, value) for name, value in defaults if isinstance(value, bool | int | float | str))

"""Properties of a catalog entry by which Spark recognizes it as a Hudi table, and learns its schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from penstock.schema import model as m
from penstock.schema.model import Field, List, Map, Struct, Type
from penstock.schema.spark import struct_to_spark

PROVIDER = "spark.sql.sources.provider"
CREATE_VERSION = "spark.sql.create.version"
_SCHEMA = "spark.sql.sources.schema."
#: Whether a query of the table reads base files only.
READ_OPTIMIZED = "hoodie.query.as.ro.table"


def spark_table_properties(struct: Struct, partition_fields: Sequence[str], version: str, part_length: int) -> dict[str, str]:
    """Return the table properties for Spark: provider, version, schema and partition columns.

    The schema is JSON, with the partition columns last. It is cut into parts, one property each, because Hive limits the length
    of a property.

    Args:
        struct: the columns of the table.
        version: the version of Spark; empty if it is not known.
        part_length: the greatest number of characters of one part.
    """
    ordered = order_columns(struct, partition_fields)
    text = _write_type(ordered)
    parts = [text[start : start + part_length] for start in range(0, len(text), part_length)]
    properties = {PROVIDER: "hudi"}
    if version:
        properties[CREATE_VERSION] = version
    properties[f"{_SCHEMA}numParts"] = str(len(parts))
    for number, part in enumerate(parts):
        properties[f"{_SCHEMA}part.{number}"] = part
    if partition_fields:
        properties[f"{_SCHEMA}numPartCols"] = str(len(partition_fields))
        for number, name in enumerate(partition_fields):
            properties[f"{_SCHEMA}partCol.{number}"] = name
    return properties


def spark_serde_properties(path: str, *, read_optimized: bool) -> dict[str, str]:
    """Return the serde properties for Spark: the table's path, and whether queries read base files only."""
    return {"path": path, READ_OPTIMIZED: "true" if read_optimized else "false"}


def order_columns(struct: Struct, partition_fields: Sequence[str]) -> Struct:
    """Return the struct with the partition columns last. A partition column that the table lacks is added as a string column."""
    by_name = {column.name.lower(): column for column in struct.fields}
    wanted = [name.lower() for name in partition_fields]
    data = [column for column in struct.fields if column.name.lower() not in wanted]
    keys = [by_name.get(name.lower(), Field(name, m.STRING, nullable=False)) for name in partition_fields]
    return replace(struct, fields=(*data, *keys))


def _write_type(kind: Type) -> str:
    """Return the JSON of a type, character by character as Hudi writes it: a space after `array` and `map`, no comments.

    For each array, Hudi writes that it has no null elements, whatever the schema says. The text has to be equal to Hudi's.
    Otherwise Hudi and Penstock would change the properties of a table in turns.
    """
    match kind:
        case Struct(fields):
            return f'{{"type":"struct","fields":[{",".join(map(_write_field, fields))}]}}'
        case List(element, _):
            return f'{{"type":"array", "elementType":{_write_type(element)},"containsNull":false}}'
        case Map(value, nullable):
            has_nulls = "true" if nullable else "false"
            value_type = _write_type(value)
            return f'{{"type":"map", "keyType":"string","valueType":{value_type},"valueContainsNull":{has_nulls}}}'
    (field,) = struct_to_spark(Struct((Field("value", kind, nullable=True),)))["fields"]
    return json.dumps(field["type"])


def _write_field(field: Field) -> str:
    """Return the JSON of a column or of a field of a struct."""
    name = json.dumps(field.name, ensure_ascii=False)
    nullable = "true" if field.nullable else "false"
    return f'{{"name":{name},"type":{_write_type(field.type)},"nullable":{nullable},"metadata":{{}}}}'

"""Adds Hudi's meta columns to Avro schemas, and removes them. Data files have them before the columns of the user.

The schema in a commit file has no meta columns. The schemas in the footers of base files and in log blocks have them.
"""

from __future__ import annotations

from penstock.schema.avro import Avro, AvroRecord, parse_avro

META_COLUMNS: tuple[str, ...] = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
#: The sixth meta column, only in tables that keep change logs (hoodie.allow.operation.metadata.field).
OPERATION_COLUMN = "_hoodie_operation"


def with_meta_columns(avro: Avro) -> AvroRecord:
    """Return the schema of data files: the five meta columns, `_hoodie_operation` if `avro` has it, then the user's columns."""
    names = [*META_COLUMNS]
    if has_operation_column(avro):
        names.append(OPERATION_COLUMN)
    record = without_meta_columns(avro)
    return {**record, "fields": [*map(_meta_column, names), *record["fields"]]}


def with_operation_column(avro: Avro) -> AvroRecord:
    """Return the schema of a table that keeps change operations: `_hoodie_operation`, then the user's columns.

    The five meta columns are left out.
    """
    record = without_meta_columns(avro)
    return {**record, "fields": [_meta_column(OPERATION_COLUMN), *record["fields"]]}


def has_operation_column(avro: Avro) -> bool:
    """Whether the schema has the column `_hoodie_operation`."""
    return any(column["name"] == OPERATION_COLUMN for column in parse_avro(avro)["fields"])


def without_meta_columns(avro: Avro) -> AvroRecord:
    """Return the schema with the user's columns only: without the five meta columns and `_hoodie_operation`."""
    record = parse_avro(avro)
    kept = [column for column in record["fields"] if column["name"] not in (*META_COLUMNS, OPERATION_COLUMN)]
    return {**record, "fields": kept}


def _meta_column(name: str) -> AvroRecord:
    """Return the Avro field of a meta column: a nullable string."""
    # Hudi writes an empty doc, and the schema text in footers must equal Hudi's exactly.
    return {"name": name, "type": ["null", "string"], "doc": "", "default": None}

"""The meta columns that Hudi writes before the columns of each row, and schemas with and without these columns.

The schema of a commit has no meta columns; the schema in a file's footer and in a log block has them.
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
    """Return the schema of the table's files: the five meta columns, the operation column if the schema has it, the rest."""
    names = [*META_COLUMNS]
    if has_operation_column(avro):
        names.append(OPERATION_COLUMN)
    record = without_meta_columns(avro)
    return {**record, "fields": [*map(_meta_column, names), *record["fields"]]}


def with_operation_column(avro: Avro) -> AvroRecord:
    """Return the schema without the five meta columns and with the operation column before the others."""
    record = without_meta_columns(avro)
    return {**record, "fields": [_meta_column(OPERATION_COLUMN), *record["fields"]]}


def has_operation_column(avro: Avro) -> bool:
    """Whether the schema has the operation column."""
    return any(column["name"] == OPERATION_COLUMN for column in parse_avro(avro)["fields"])


def without_meta_columns(avro: Avro) -> AvroRecord:
    """Return the schema with the user's columns only."""
    record = parse_avro(avro)
    kept = [column for column in record["fields"] if column["name"] not in (*META_COLUMNS, OPERATION_COLUMN)]
    return {**record, "fields": kept}


def _meta_column(name: str) -> AvroRecord:
    # Hudi writes an empty doc. The footer's schema must be Hudi's, letter by letter.
    return {"name": name, "type": ["null", "string"], "doc": "", "default": None}

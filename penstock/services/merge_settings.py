"""How services that rewrite file slices merge rows and write files."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock import options as o
from penstock.catalog.merge_rules import build_merge_rules, event_time_column
from penstock.commit.file_settings import base_file_settings
from penstock.filegroup.slice_rows import MergeRules
from penstock.filegroup.task_output import FileSettings
from penstock.schema import META_COLUMNS, avro_text, with_storage_types
from penstock.table import TableState


def merge_settings(table: TableState, time: str, schema: str) -> tuple[MergeRules, FileSettings]:
    """Return how base files and logs become rows, and how new files are written at an instant.

    Args:
        schema: the table's Avro schema.
    """
    rules = build_merge_rules(table, schema, memory_bytes=table.options[o.COMPACTION_MAX_BYTES])
    columns = [field for field in rules.arrow if field.name not in META_COLUMNS]
    settings = base_file_settings(table, time, with_storage_types(pa.schema(columns)), schema)
    return rules, replace(settings, avro_schema=avro_text(rules.schema), event_time=event_time_column(table))

"""The settings of new data files, read from the options. Used by writes and table services."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock import options as o
from penstock.filegroup.key_footer import BloomSettings
from penstock.filegroup.log.write import BlockFormat
from penstock.filegroup.markers import MarkerStyle
from penstock.filegroup.slice_rows import MergeRules
from penstock.filegroup.task_output import FileSettings
from penstock.options import Options
from penstock.schema import META_COLUMNS, avro_text, with_meta_columns, with_storage_types
from penstock.table.merge_rules import build_merge_rules, find_event_time_column
from penstock.table.state import TableState


def merge_file_settings(table: TableState, time: str, schema: str) -> tuple[MergeRules, FileSettings]:
    """Return the rules by which a table service merges base files and log files, and the settings of the base files it writes.

    Args:
        time: the instant time of the new base files.
        schema: the table's Avro schema as JSON, without meta columns.
    """
    rules = build_merge_rules(table, schema, memory_bytes=table.options[o.COMPACTION_MAX_BYTES])
    columns = [field for field in rules.arrow if field.name not in META_COLUMNS]
    settings = base_file_settings(table, time, with_storage_types(pa.schema(columns)), schema)
    return rules, replace(settings, avro_schema=avro_text(rules.schema), event_time=find_event_time_column(table))


def base_file_settings(table: TableState, instant: str, schema: pa.Schema, avro: str) -> FileSettings:
    """Return the settings with which a write or table service writes new base files.

    Args:
        instant: the instant time of the new files.
        schema: the data columns with the types in which they are stored.
        avro: the same columns as an Avro schema in JSON, without meta columns.
    """
    options = table.options
    return FileSettings(
        storage=table.storage,
        base_path=table.base_path,
        instant=instant,
        schema=schema,
        avro_schema=avro_text(with_meta_columns(avro)),
        codec=options[o.COMPRESSION_CODEC],
        bloom=_bloom_settings(options),
        populate_meta=options[o.POPULATE_META_FIELDS] and table.config.populate_meta_fields,
        max_file_bytes=options[o.MAX_FILE_SIZE],
        markers=MarkerStyle(options[o.MARKERS_TYPE].upper()),
    )


def log_block_format(options: Options) -> BlockFormat:
    """Return the format of data blocks in new log files: that of `hoodie.logfile.data.block.format` if set, otherwise Avro."""
    return BlockFormat((options[o.LOG_BLOCK_FORMAT] or BlockFormat.AVRO.value).lower())


def _bloom_settings(options: Options) -> BloomSettings | None:
    """Return the settings of the bloom filters in new base files; None if new base files get no bloom filters.

    If the index is a bloom index, bloom filters are always written, because the index locates keys by them.
    """
    if not options[o.FOOTER_BLOOM_FILTER] and "BLOOM" not in options[o.INDEX_TYPE].upper():
        return None
    return BloomSettings(
        kind=options[o.BLOOM_FILTER_TYPE],
        entries=options[o.BLOOM_NUM_ENTRIES],
        error_rate=options[o.BLOOM_FPP],
        max_entries=options[o.BLOOM_MAX_ENTRIES],
    )

"""Builds the `MergeRules` of a table: how log records are merged with the rows of base files.

The rules are the payload, the ordering field, the record key column and further settings, from `hoodie.properties` and the
options. Queries, compaction and clustering use the same rules, so that a query returns the same row before and after a
compaction.
"""

from __future__ import annotations

import pyarrow as pa

from penstock import options as o
from penstock.errors import Unsupported
from penstock.filegroup.fill_meta_columns import KEY_COLUMN
from penstock.filegroup.slice_rows import MergeRules
from penstock.merge.kernels.gather import find_column
from penstock.merge.make_merger import (
    PAYLOADS_WITH_EVENT_TIME,
    is_known_payload,
    make_delete_marker,
    make_merger,
    read_payload_options,
    unknown_payload,
)
from penstock.merge.ordered_deletes import check_ordered_deletes
from penstock.merge.payload_settings import PayloadSettings
from penstock.options.payload_names import PENSTOCK_PAYLOADS
from penstock.schema import avro_to_arrow, column_defaults, has_operation_column, with_meta_columns, with_operation_column
from penstock.schema.avro import AvroRecord, parse_avro
from penstock.storage import temporary_folder
from penstock.table.damaged_logs import read_committed_times
from penstock.table.state import TableState


def build_merge_rules(
    table: TableState,
    schema: str,
    *,
    as_of: str | None = None,
    memory_bytes: int | None = None,
    skip_merge: bool = False,
) -> MergeRules:
    """Return the rules for merging the table's base files with its log files.

    The payload class comes from `hoodie.properties`; the option for it is ignored. Two log records of one key are compared by the
    ordering field if it is a top-level column. If it is inside a struct (`a.b`), only Penstock's own payloads compare two log
    records by it. Hudi's payloads use it only when a log record is merged with the row of the base file, as in Hudi.

    Args:
        schema: the Avro schema of the rows as JSON, without meta columns.
        as_of: the instant time of a time travel query; None for the latest commit.
        memory_bytes: the limit of memory for the merged log records of one slice; None for `hoodie.memory.merge.max.size`.
        skip_merge: whether a read returns the rows of base files and log files without merging them.

    Raises:
        OptionError: the payload class in `hoodie.properties` is neither built in nor registered.
        Unsupported: the table's files have no record key column, and no other column equals the record key.
    """
    options = table.options
    keeps_operation = has_operation_column(schema) or options[o.ALLOW_OPERATION_FIELD]
    ordering = find_ordering_field(table)
    settings = PayloadSettings(
        ordering=ordering,
        marker=make_delete_marker(options[o.PAYLOAD_DELETE_FIELD], options[o.PAYLOAD_DELETE_MARKER]),
        defaults=column_defaults(parse_avro(schema)),
        operation=keeps_operation,
        own=read_payload_options({**options.raw, **table.config.raw}),
        fixed=(*table.config.record_key_fields, *table.config.partition_fields),
        timeout_s=options[o.PAYLOAD_TIMEOUT],
    )
    payload = table.config.raw.get(o.STORED_PAYLOAD_CLASS.key, o.STORED_PAYLOAD_CLASS.default)
    if not is_known_payload(payload):
        raise unknown_payload(payload, f"{table.base_path} has log files to be merged, and its {o.STORED_PAYLOAD_CLASS.key}")
    orders_deletes = table.config.ordered_deletes
    if orders_deletes:
        check_ordered_deletes(payload, table.config.precombine_field)
    return MergeRules(
        merger=make_merger(payload, settings=settings),
        schema=_file_schema(schema, keeps_operation),
        times=read_committed_times(table, as_of),
        ordering=ordering if ordering and (orders_deletes or _orders_logs(ordering, payload, schema)) else None,
        memory_bytes=memory_bytes or options[o.MERGE_MAX_BYTES],
        spill_folder=options[o.SPILLABLE_MAP_PATH] or temporary_folder(),
        skip_merge=skip_merge,
        key=_key_column(table, schema),
        orders_deletes=orders_deletes,
    )


def _key_column(table: TableState, schema: str) -> str:
    """Return the name of the column that holds record keys.

    This is `_hoodie_record_key` if the table fills that column, otherwise the single record key field.

    Raises:
        Unsupported: `_hoodie_record_key` is not filled, and the key has several fields or a type that `_is_its_own_key` rejects.
    """
    if table.config.populate_meta_fields:
        return KEY_COLUMN
    fields = table.config.record_key_fields
    arrow = avro_to_arrow(schema)
    if len(fields) == 1 and fields[0] in arrow.names and _is_its_own_key(arrow.field(fields[0]).type):
        return fields[0]
    raise Unsupported(
        f"{table.base_path} has log files and keeps no record keys ({o.POPULATE_META_FIELDS.key}=false); then log files can be "
        f"merged only if the key is one column of texts, whole numbers, days or booleans, not {', '.join(fields)!r}; set "
        f"{o.QUERY_TYPE.key}=read_optimized to read its base files"
    )


def _is_its_own_key(kind: pa.DataType) -> bool:
    """Whether a value of this Arrow type, printed as a plain string, is Hudi's record key for that value.

    True for strings, integers, dates and booleans.
    """
    checks = (pa.types.is_string, pa.types.is_integer, pa.types.is_date32, pa.types.is_boolean)
    return any(check(kind) for check in checks)


def find_ordering_field(table: TableState) -> str | None:
    """Return the ordering field: from `hoodie.properties` if set there, otherwise from the options; None if neither sets it."""
    named = table.options[o.PRECOMBINE_FIELD] if table.options.is_set(o.PRECOMBINE_FIELD) else None
    return table.config.precombine_field or named or None


def find_event_time_column(table: TableState, payload: str | None = None) -> str | None:
    """Return the column whose values are event times. Write stats store the least and greatest event time of each file.

    None if the options name no column for event times, or the payload does not use event times.

    Args:
        payload: the payload class; None for the one in `hoodie.properties`.
    """
    payload = payload or table.config.raw.get(o.STORED_PAYLOAD_CLASS.key, o.STORED_PAYLOAD_CLASS.default)
    if payload not in PAYLOADS_WITH_EVENT_TIME:
        return None
    return table.options[o.PAYLOAD_EVENT_TIME_FIELD]


def _orders_logs(ordering: str, payload: str, schema: str) -> bool:
    """Whether two log records of one key are compared by the field `ordering`.

    True if `ordering` is a column of `schema`, or, with Penstock's payloads, a field inside a struct.
    """
    column_names = [column["name"] for column in parse_avro(schema)["fields"]]
    if ordering in column_names:
        return True
    return payload in PENSTOCK_PAYLOADS and find_column(avro_to_arrow(schema).empty_table(), ordering) is not None


def _file_schema(schema: str, keeps_operation: bool) -> AvroRecord:
    """Return the Avro schema of data files: the meta columns, then the columns of `schema`.

    Args:
        keeps_operation: whether the meta columns include `_hoodie_operation`.
    """
    return with_meta_columns(with_operation_column(schema) if keeps_operation else schema)

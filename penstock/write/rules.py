"""What holds for a whole write, decided from its options and the table: the merger, settings of tasks, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

from penstock import options as o
from penstock.catalog.merge_rules import build_merge_rules, event_time_column, ordering_field
from penstock.commit.change import Change
from penstock.commit.file_settings import base_file_settings
from penstock.errors import OptionError, SchemaError, Unsupported
from penstock.filegroup.key_changes import key_changes_folder
from penstock.filegroup.log.write import LogSettings
from penstock.filegroup.slice_rows import MergeRules
from penstock.filegroup.task_output import FileSettings
from penstock.merge.kernels.gather import find_column
from penstock.merge.merger import Merger
from penstock.merge.overwrite import AlwaysDelete
from penstock.merge.payloads import (
    READY,
    PayloadSettings,
    delete_marker,
    is_known,
    merger_of,
    merger_of_mode,
    own_settings,
    unknown_payload,
)
from penstock.options.operation import Operation
from penstock.registry import registered
from penstock.schema import column_defaults, has_operation_column
from penstock.storage import temporary_folder
from penstock.table import TableState
from penstock.write.context import WriteContext
from penstock.write.locate.assign import insert_ratio, sizing_of
from penstock.write.locate.upsert import UpsertRules
from penstock.write.rows.staging import Staging
from penstock.write.rows.task_rows import TaskRowsSettings, missing_ordering
from penstock.write.tasks.log_file import log_settings


def check_keys_are_stored(write: WriteContext, what: str) -> None:
    """Refuse what has to find rows by key in files that hold no keys, before anything is written."""
    if not write.options[o.POPULATE_META_FIELDS]:
        raise Unsupported(
            f"{what} looks for record keys in the base files, and {write.table.base_path} keeps none there "
            f"({o.POPULATE_META_FIELDS.key}=false); use insert or bulk_insert, or write a table with that option true"
        )


def check_ordering_column(write: WriteContext) -> None:
    """Refuse rows without the column that decides which of several rows of a key is newer, before anything is written."""
    if not combines(write):
        return
    column = write.settings.ordering_field or write.options[o.PRECOMBINE_FIELD]
    if find_column(write.prepared.stored_schema.empty_table(), column) is None:
        raise SchemaError(missing_ordering(column, write.prepared.stored_schema.names))


def combines(write: WriteContext) -> bool:
    """Whether the batch is reduced to the newest row of each key; otherwise the last one counts."""
    if write.settings.operation is Operation.UPSERT:
        return write.options[o.COMBINE_BEFORE_UPSERT]
    return write.settings.operation is Operation.INSERT


def rules_of(write: WriteContext, change: Change, staging: Staging) -> UpsertRules:
    """What holds for every task of this upsert or delete, or of an insert that drops duplicates."""
    settings, merger, index = write.settings, merger_for(write), write.index
    if index.moves and index.entries is not None and write.table.is_merge_on_read and merger.is_user_function:
        raise Unsupported(
            f"{o.PAYLOAD_CLASS.key}={settings.payload_class} would begin a row anew that {index.name} moves to a log of another "
            f"partition, each time it is read there; set {index.moves_option}=false, or use a GLOBAL index"
        )
    ordered = combines(write) and not merger.ignores_ordering and not merger.folds
    merging = build_merge_rules(write.table, write.prepared.avro_schema) if write.table.is_merge_on_read else None
    return UpsertRules(
        settings=file_settings(write, change),
        loading=task_rows_settings(write, staging, settings.ordering_field if ordered else None),
        merger=merger,
        sizing=sizing_of(write.table, write.options),
        index=index,
        ordering=settings.ordering_field if combines(write) and not merger.ignores_ordering else None,
        logs=log_settings(write.table, write.options, compared_in_logs(write.table, merging)),
        merging=merging,
        drops_unknown=settings.operation is Operation.DELETE,
        drops_known=settings.operation is Operation.INSERT and write.options[o.INSERT_DROP_DUPLICATES],
        adds=adds(write),
        logs_first=index.sees_logs and settings.operation is not Operation.BULK_INSERT,
    )


def insert_logs(write: WriteContext) -> LogSettings | None:
    """How an insert writes logs; None where its rows go to base files."""
    if insert_ratio(write.table, write.options) is None:
        return None
    compared = compared_in_logs(write.table, build_merge_rules(write.table, write.prepared.avro_schema))
    return log_settings(write.table, write.options, compared)


def compared_in_logs(table: TableState, merging: MergeRules | None) -> str | None:
    """The column by which who reads a log decides between its rows and stored ones; None if none does."""
    column = ordering_field(table)
    if merging is None or merging.merger.ignores_ordering or column not in merging.merger.needs:
        return None
    return column


def adds(write: WriteContext) -> bool:
    """Whether an insert leaves stored rows of its keys alone."""
    operation = write.settings.operation
    if operation not in (Operation.INSERT, Operation.BULK_INSERT) or write.options[o.INSERT_DROP_DUPLICATES]:
        return False
    return operation is Operation.BULK_INSERT or write.options[o.MERGE_ALLOW_DUPLICATE_ON_INSERTS]


def merger_for(write: WriteContext) -> Merger:
    """What happens when a row meets its stored version."""
    if write.settings.operation is Operation.DELETE:
        return AlwaysDelete()
    payload = write.settings.payload_class
    if not is_known(payload) and write.table.is_merge_on_read:
        raise unknown_payload(payload, f"{o.STORED_PAYLOAD_CLASS.key} of {write.table.base_path}")
    o.PAYLOAD_CLASS.require_support(payload)  # it may be the table's, not the caller's
    if (function := registered(payload)) is not None:
        function.packed()  # fails here, not in a Spark job, if it cannot travel
    check_payload_of_logs(write.table, payload)
    mode, settings = write.options[o.RECORD_MERGE_MODE], payload_settings(write)
    if mode is not None:
        return merger_of_mode(mode, settings, payload)
    return merger_of(payload, settings=settings)


def check_payload_of_logs(table: TableState, payload: str) -> None:
    """Refuse rows that only one payload understands in logs that another one reads."""
    stored = table.config.raw.get(o.STORED_PAYLOAD_CLASS.key, o.STORED_PAYLOAD_CLASS.default)
    if (
        table.is_merge_on_read
        and payload != stored
        and any(one in READY or registered(one) or not is_known(one) for one in (payload, stored))
    ):
        raise OptionError(
            f"{o.PAYLOAD_CLASS.key}={payload} cannot write to {table.base_path}, whose log files are merged by {stored} "
            f"({o.STORED_PAYLOAD_CLASS.key}); leave the option out, or make a new table"
        )


def payload_settings(write: WriteContext) -> PayloadSettings:
    """What the payload is told beside its rows."""
    options, keys = write.options, write.settings.keys
    return PayloadSettings(
        ordering=write.settings.ordering_field,
        marker=delete_marker(options[o.PAYLOAD_DELETE_FIELD], options[o.PAYLOAD_DELETE_MARKER]),
        defaults=column_defaults(json.loads(write.prepared.avro_schema)),
        operation=has_operation_column(write.prepared.avro_schema),
        own=own_settings(options.raw),
        fixed=(*keys.record_key_fields, *write.partition_columns),
        timeout_s=options[o.PAYLOAD_TIMEOUT],
    )


def task_rows_settings(write: WriteContext, staging: Staging, ordering: str | None) -> TaskRowsSettings:
    """How tasks bring their incoming rows together."""
    return TaskRowsSettings(
        staging=staging,
        ordering=ordering,
        memory_bytes=write.options[o.MERGE_MAX_BYTES],
        spill_folder=write.options[o.SPILLABLE_MAP_PATH] or temporary_folder(),
    )


def file_settings(write: WriteContext, change: Change) -> FileSettings:
    """How this write's base files are made."""
    prepared = write.prepared
    settings = base_file_settings(write.table, change.time, prepared.stored_schema, prepared.avro_schema)
    settings = replace(settings, event_time=event_time_column(write.table, write.settings.payload_class))
    if write.index.entries is None:
        return settings
    return replace(settings, key_changes_folder=key_changes_folder(write.table.base_path, change.time))

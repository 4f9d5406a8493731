"""Builds the settings that all tasks of a write share: the merger, and how tasks load rows and write base files and logs.

The settings are built on the driver from `WriteContext`, and pickled to the workers with each task.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from penstock import options as o
from penstock.commit.change import Change
from penstock.filegroup.log.write import LogSettings
from penstock.filegroup.slice_rows import MergeRules
from penstock.filegroup.task_output import FileSettings
from penstock.merge.kernels.gather import find_column
from penstock.merge.make_merger import (
    is_known_payload,
    make_delete_marker,
    make_merger,
    make_merger_of_mode,
    read_payload_options,
    unknown_payload,
)
from penstock.merge.merger import Merger
from penstock.merge.ordered_deletes import order_deletes
from penstock.merge.overwrite import AlwaysDelete
from penstock.merge.payload_settings import PayloadSettings
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.schema import column_defaults, has_operation_column
from penstock.storage import temporary_folder
from penstock.table.file_settings import base_file_settings, log_block_format
from penstock.table.merge_rules import build_merge_rules, find_event_time_column, find_ordering_field
from penstock.table.state import TableState
from penstock.write.checks import check_merger_can_move_rows, check_payload_of_logs
from penstock.write.context import WriteContext
from penstock.write.locate.small_files import insert_ratio, read_sizing
from penstock.write.rows.staging import Staging
from penstock.write.tasks.task import InsertBucket, InsertTask, UpsertRules
from penstock.write.tasks.task_rows import TaskRowsSettings


def build_upsert_rules(write: WriteContext, change: Change, staging: Staging) -> UpsertRules:
    """Return the settings that all tasks of a write share. `tasks/upsert_kernel.py` runs these tasks.

    The write is an upsert, a delete, an insert that drops duplicates, or any write into buckets. Other inserts use
    `build_insert_tasks`.

    Raises:
        OptionError: the payload is unknown, or differs from the payload of the table's logs.
        Unsupported: Penstock does not have the payload, or the index cannot move rows with it.
    """
    table = write.table
    settings = write.settings
    merger = build_merger(write)
    check_merger_can_move_rows(write, merger)
    ordering = _batch_ordering(write, merger)
    # Delete entries of a log have ordering values if readers compare them.
    in_log = settings.ordering_field if merger.orders_deletes and write.options[o.ORDERED_DELETES] else ordering
    merging = build_merge_rules(table, write.prepared.avro_schema) if table.is_merge_on_read else None
    return UpsertRules(
        settings=build_file_settings(write, change),
        # A merger with `folds` builds one row out of all incoming rows of a key. That is done before tasks load the rows
        # (`rows/combine_staged.py`), so tasks have no newest row to pick.
        loading=build_task_rows_settings(write, staging, None if merger.folds else ordering),
        merger=merger,
        sizing=read_sizing(table, write.options),
        index=write.index,
        ordering=in_log,
        logs=_log_settings(table, write.options, _ordering_in_logs(table, merging)),
        merging=merging,
        drops_unknown=settings.operation is Operation.DELETE,
        keeps_repeats=settings.keeps_repeats,
        drops_known=settings.operation is Operation.INSERT and write.options[o.INSERT_DROP_DUPLICATES],
        adds=_keeps_stored_rows(write),
        logs_first=write.index.inserts_into_logs and settings.operation is not Operation.BULK_INSERT,
    )


def _batch_ordering(write: WriteContext, merger: Merger) -> str | None:
    """Return the column by which the newest of several incoming rows of a key is picked; None: the last to arrive is picked."""
    settings = write.settings
    compares_deletes = settings.operation is Operation.DELETE and merger.orders_deletes
    if merger.ignores_ordering or not (settings.picks_newest or compares_deletes):
        return None
    return settings.ordering_field


def build_insert_tasks(
    write: WriteContext, change: Change, staging: Staging, buckets: Sequence[InsertBucket], *, base_files_only: bool = False
) -> list[InsertTask]:
    """Return the tasks of an insert, one per insert bucket (the incoming rows that an insert adds to one file group).

    Args:
        buckets: the insert buckets, as the driver has assigned them.
        base_files_only: whether rows go to base files even if the index finds keys in logs (insert_overwrite).
    """
    settings = build_file_settings(write, change)
    merger = build_merger(write)
    keeps_duplicates = write.options[o.MERGE_ALLOW_DUPLICATE_ON_INSERTS] or write.settings.auto_keys
    loading = None if keeps_duplicates else build_task_rows_settings(write, staging, None)
    logs = None if base_files_only else _insert_log_settings(write)
    return [InsertTask(bucket, settings, staging, merger, loading, logs) for bucket in buckets]


def _insert_log_settings(write: WriteContext) -> LogSettings | None:
    """Return how an insert writes log files; None if its rows go to base files."""
    if insert_ratio(write.table, write.options) is None:
        return None
    merging = build_merge_rules(write.table, write.prepared.avro_schema)
    return _log_settings(write.table, write.options, _ordering_in_logs(write.table, merging))


def _log_settings(table: TableState, options: Options, compared: str | None) -> LogSettings | None:
    """Return how tasks write log files; None for a copy-on-write table.

    Args:
        compared: the column by which readers compare rows of the log with stored rows; None if they compare none.
    """
    if not table.is_merge_on_read:
        return None
    return LogSettings(
        block_format=log_block_format(options),
        max_block_bytes=options[o.LOG_BLOCK_MAX_SIZE],
        max_file_bytes=options[o.LOG_FILE_MAX_SIZE],
        insert_ratio=insert_ratio(table, options),
        compared=compared,
    )


def _ordering_in_logs(table: TableState, merging: MergeRules | None) -> str | None:
    """Return the ordering column if readers merge the table's logs by comparing its values; otherwise None.

    Args:
        merging: how readers merge base files and logs; None for a copy-on-write table.
    """
    column = find_ordering_field(table)
    if merging is None or merging.merger.ignores_ordering or column not in merging.merger.needs:
        return None
    return column


def _keeps_stored_rows(write: WriteContext) -> bool:
    """Whether the write is an insert that adds rows even if their keys are stored, and leaves the stored rows unchanged."""
    operation = write.settings.operation
    if operation not in (Operation.INSERT, Operation.BULK_INSERT) or write.options[o.INSERT_DROP_DUPLICATES]:
        return False
    return operation is Operation.BULK_INSERT or write.options[o.MERGE_ALLOW_DUPLICATE_ON_INSERTS]


def build_merger(write: WriteContext) -> Merger:
    """Return the merger that merges an incoming row with the stored row of its key, as the payload class or merge mode says.

    Raises:
        OptionError: the payload is unknown, or must not be mixed with the payload by which readers merge the table's logs.
        Unsupported: Penstock does not have the payload.
    """
    ordering = write.settings.ordering_field if write.options[o.ORDERED_DELETES] else None
    if write.settings.operation is Operation.DELETE:
        # Deletes without an ordering value delete the stored row in any case.
        if ordering is None or find_column(write.prepared.crossing.schema.empty_table(), ordering) is None:
            return AlwaysDelete()
        return order_deletes(AlwaysDelete(), ordering)
    payload = write.settings.payload_class
    if not is_known_payload(payload) and write.table.is_merge_on_read:
        raise unknown_payload(payload, f"{o.STORED_PAYLOAD_CLASS.key} of {write.table.base_path}")
    # The options of the call are checked already, but the payload may be the table's.
    o.PAYLOAD_CLASS.require_support(payload)
    function = MERGE_FUNCTIONS.find(payload)
    if function is not None:
        function.dump()  # raises now, and not in a Spark job, if the function cannot be pickled
    check_payload_of_logs(write.table, payload)
    mode = write.options[o.RECORD_MERGE_MODE]
    settings = _payload_settings(write)
    if mode is not None:
        merger = make_merger_of_mode(mode, settings, payload)
    else:
        merger = make_merger(payload, settings=settings)
    return merger if ordering is None else order_deletes(merger, ordering)


def _payload_settings(write: WriteContext) -> PayloadSettings:
    """Return the settings from which a payload is made: ordering column, delete marker, column defaults, and its own options."""
    options = write.options
    return PayloadSettings(
        ordering=write.settings.ordering_field,
        marker=make_delete_marker(options[o.PAYLOAD_DELETE_FIELD], options[o.PAYLOAD_DELETE_MARKER]),
        defaults=column_defaults(json.loads(write.prepared.avro_schema)),
        operation=has_operation_column(write.prepared.avro_schema),
        own=read_payload_options(options.raw),
        fixed=(*write.settings.keys.record_key_fields, *write.partition_columns),
        timeout_s=options[o.PAYLOAD_TIMEOUT],
    )


def build_task_rows_settings(write: WriteContext, staging: Staging, ordering: str | None) -> TaskRowsSettings:
    """Return the settings with which tasks load their incoming rows.

    Args:
        ordering: the column by which the newest of several incoming rows of a key is picked; None: the last to arrive.
    """
    return TaskRowsSettings(
        staging=staging,
        ordering=ordering,
        memory_bytes=write.options[o.MERGE_MAX_BYTES],
        spill_folder=write.options[o.SPILLABLE_MAP_PATH] or temporary_folder(),
    )


def build_file_settings(write: WriteContext, change: Change) -> FileSettings:
    """Return the settings with which the tasks of this write create base files."""
    prepared = write.prepared
    settings = base_file_settings(write.table, change.time, prepared.stored_schema, prepared.avro_schema)
    settings = replace(settings, event_time=find_event_time_column(write.table, write.settings.payload_class))
    return write.index.with_key_changes(settings)

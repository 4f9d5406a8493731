"""Where every write comes in: save modes, the table made or opened, options checked; then one operation runs.

Everything that can be found wrong without looking at rows is found here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from penstock import options as o
from penstock.commit.heartbeat import keep_heartbeat
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.overwrite import OVERWRITE, finish_overwrite, new_table_path, swap_tables
from penstock.door.follow_ups import follow_up
from penstock.errors import CommitUnknown, OptionError, StorageError, TableExists, TableNotFound
from penstock.hooks import HookContext, PublishedCommit, run_after_hooks
from penstock.index import index_of
from penstock.options import Options, read_options
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.clustering.after_write import check_inline
from penstock.services.clustering.unschedule import unschedule_clustering
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.spread.session import name_jobs
from penstock.storage import Storage, join, open_storage
from penstock.table import TableConfig, TableState, open_table, table_exists, table_schema
from penstock.timeline.store import FOLDER, load_timeline
from penstock.write.context import WriteContext
from penstock.write.create_table import create_table
from penstock.write.locate.index_change import check_index
from penstock.write.operations import OPERATIONS
from penstock.write.rows.schema import PreparedRows, prepare_rows
from penstock.write.settings import WriteSettings, check_against_table, resolve
from penstock.write.tell import check_entries

_MODES = {
    "append": "append",
    "overwrite": "overwrite",
    "ignore": "ignore",
    "error": "error",
    "errorifexists": "error",
    "default": "error",
}


def write(
    spark: SparkSession, incoming: DataFrame, path: str, raw_options: Mapping[str, object], mode: str | None = None
) -> PublishedCommit | None:
    """Write rows to the table at `path`, which is created if it is not there.

    Returns:
        The commit; None if mode `ignore` met a table.
    """
    storage, base_path = open_storage(path)
    options = read_options(raw_options)
    finish_overwrite(storage, base_path)
    exists = table_exists(storage, base_path)
    save_mode = _save_mode(mode)
    if exists and save_mode == "ignore":
        return None
    if exists and save_mode == "error":
        raise TableExists(f"hoodie table at {base_path} already exists.; use mode('append') to add to it")
    _check_mode(options, save_mode, exists, base_path)
    if not exists:
        commit, table = _create(spark, incoming, storage, base_path, options)
    elif save_mode == "overwrite" and options[o.OPERATION] is not Operation.INSERT_OVERWRITE_TABLE:
        commit, table = _overwrite(spark, incoming, storage, base_path, options)
    else:
        commit, table = _append(spark, incoming, path, options)
    return replace(commit, failed_services=follow_up(spark, table))


def _append(spark: SparkSession, incoming: DataFrame, path: str, options: Options) -> tuple[PublishedCommit, TableState]:
    """Write to the table that is there."""
    table = open_table(path, options)
    check_against_table(options, table.config, table.base_path)
    settings = resolve(options, table.config, frozenset(incoming.columns))
    check_index(table, settings.options)
    return _run(spark, table, settings, prepare_rows(incoming, settings, table_schema(table)))


def _create(
    spark: SparkSession, incoming: DataFrame, storage: Storage, base_path: str, options: Options
) -> tuple[PublishedCommit, TableState]:
    """Make the table with its first write; an error leaves nothing of it."""
    settings = resolve(options, None, frozenset(incoming.columns))
    prepared = prepare_rows(incoming, settings, None)
    was_there = storage.stat(base_path) is not None
    table = create_table(storage, base_path, settings)
    try:
        return _run(spark, table, settings, prepared)
    except CommitUnknown:
        raise
    except Exception:
        with suppress(StorageError):
            if not load_timeline(storage, base_path).instants:  # a table that others began to write to is theirs too
                storage.delete_tree(base_path if not was_there else join(base_path, FOLDER))
        raise


def _overwrite(
    spark: SparkSession, incoming: DataFrame, storage: Storage, base_path: str, options: Options
) -> tuple[PublishedCommit, TableState]:
    """Write a new table aside, and put it in the place of the old one."""
    fresh = new_table_path(base_path)
    try:
        with keep_heartbeat(TableState(storage, fresh, TableConfig({}), options), OVERWRITE):
            commit, table = _create(spark, incoming, storage, fresh, options)
    except Exception as e:
        with suppress(StorageError):
            storage.delete_tree(fresh)
        if not isinstance(e, CommitUnknown):
            raise
        # known after all: nobody sees a table that has not taken its place
        raise StorageError(f"overwriting {base_path} failed, the old table is as it was: {e.__cause__}") from e
    swap_tables(storage, fresh, base_path, commit.instant)
    table = replace(table, base_path=base_path)
    return run_after_hooks(HookContext(table, spark), commit), table


def _run(
    spark: SparkSession, table: TableState, settings: WriteSettings, prepared: PreparedRows
) -> tuple[PublishedCommit, TableState]:
    """Run the operation; gives the commit, and the table for what follows it."""
    table = replace(table, options=settings.options)
    check_entries(index_of(settings.options), table)
    check_inline(table, prepared.avro_schema)
    table = roll_back_failed(turn_off_metadata_table(table))
    title = f"{settings.operation} {settings.table_name}"
    stages = Stages(title, settings.options[o.PROGRESS], partial(name_jobs, spark))
    return OPERATIONS[settings.operation](WriteContext(spark, table, settings, prepared, stages, unschedule_clustering)), table


def _save_mode(mode: str | None) -> str:
    try:
        return _MODES[(mode or "error").lower()]
    except KeyError:
        raise OptionError(f"save mode {mode!r} is not known; use append, overwrite, ignore or error") from None


def _check_mode(options: Options, mode: str, exists: bool, base_path: str) -> None:
    operation = options[o.OPERATION]
    if operation in (Operation.DELETE, Operation.DELETE_PARTITION):
        if mode != "append":
            raise OptionError(f"Append is the only save mode applicable for {operation.stored} operation; use mode('append')")
        if not exists:
            raise TableNotFound(f"hoodie table at {base_path} does not exist; there is nothing to delete from")

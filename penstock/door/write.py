"""The entrance of every write: applies the save mode, opens or creates the table, runs one operation and the inline services.

    save mode → options resolved (write/settings.py) → rows prepared (write/rows/schema.py) → operation (write/operations.py)

All checks that need no rows run before any file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from penstock import options as o
from penstock.commit.heartbeat import keep_heartbeat
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.modes import is_optimistic
from penstock.commit.open_finished import open_finished
from penstock.commit.run_hooks import check_hooks
from penstock.commit.sole_writer import refuse_other_writers
from penstock.commit.swap_tables import finish_overwrite, new_table_path, swap_tables
from penstock.commit.table_lock import check_lock, check_store
from penstock.door.async_services import AsyncServices
from penstock.door.follow_ups import follow_up_write
from penstock.door.interrupts import end_at_interrupt
from penstock.door.preview import read_preview
from penstock.errors import (
    AlreadyExists,
    CommitUnknown,
    CorruptFile,
    OptionError,
    StorageError,
    TableChanged,
    TableExists,
    TableNotFound,
)
from penstock.filegroup.markers import MarkerStyle
from penstock.hooks import HookContext, PublishedCommit
from penstock.hooks.lineage import LineageRun, make_lineage_run
from penstock.index import make_index
from penstock.options import Options, read_options
from penstock.options.operation import Operation
from penstock.options.storage import STORAGE_OPTIONS
from penstock.progress import Stages, format_count
from penstock.services.clustering.after_write import check_inline
from penstock.services.clustering.unschedule import unschedule_clustering
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.storage import Storage, has_whole_files, open_storage
from penstock.table.config import TableConfig, read_config
from penstock.table.foreign_files import find_foreign_files
from penstock.table.state import TableState, read_table_schema, table_exists
from penstock.timeline.overwrite_note import OVERWRITE
from penstock.workers.session_settings import name_jobs
from penstock.write.context import CommitAddition, WriteContext
from penstock.write.create_table import create_table, store_ordered_deletes, withdraw_table
from penstock.write.operations import OPERATIONS
from penstock.write.rows.schema import PreparedRows, prepare_rows
from penstock.write.settings import WriteSettings, check_against_table, resolve_settings


class SaveMode(str, Enum):
    """Spark's save modes: what a write does if there is a table at its path already."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"


#: Spark's other names of the mode `error`.
_MODE_ALIASES = {"errorifexists": SaveMode.ERROR, "default": SaveMode.ERROR}


#: How many times a write loads the table, if another write comes between each time.
_ATTEMPTS = 5


#: Builds the incoming rows from the table as the write found it. A write that begins again calls it again.
RowsOfTable: TypeAlias = Callable[[TableState], DataFrame]


#: How many files an error names.
_FILES_NAMED = 5


@dataclass(frozen=True)
class _Request:
    """The arguments of one call of `write`, with the path and the options parsed."""

    spark: SparkSession
    rows: DataFrame | RowsOfTable
    storage: Storage
    base_path: str
    options: Options
    stages: Stages
    addition: CommitAddition = field(default_factory=CommitAddition)
    #: Runs table services while the rows are written.
    services: AsyncServices = field(default_factory=AsyncServices)

    def rows_of(self, table: TableState | None) -> DataFrame:
        """Return the incoming rows. If `write` was called with a function that builds the rows from the table, call the function.

        Args:
            table: the table as the write found it; None: the write creates the table.

        Raises:
            TableNotFound: a function builds the rows from the table, and there is no table.
        """
        if not callable(self.rows):
            return self.rows
        if table is None:
            raise TableNotFound(f"there is no table at {self.base_path} from which the rows could be read")
        return self.rows(table)


def write(
    spark: SparkSession,
    incoming: DataFrame | RowsOfTable,
    path: str,
    raw_options: Mapping[str, object],
    mode: str | None = None,
    addition: CommitAddition | None = None,
) -> PublishedCommit | None:
    """Write rows to the table at `path`, then run the inline table services and hooks. Create the table if it does not exist.

    Args:
        incoming: the rows to write, or a function that builds them from the table. If the write begins again, so that the table
            may have changed, the function is called again.
        raw_options: the options of the write, by their keys. They name the operation.
        mode: Spark's save mode; None: `error`.
        addition: what a stream adds to the commit; None: nothing.

    Returns:
        The commit; None if the mode is `ignore` and the table exists.

    Raises:
        TableExists: the mode is `error` and the table exists.
        TableNotFound: the table does not exist, and the operation is a delete or `incoming` is a function.
        OptionError: an option or the mode is invalid, or contradicts the table.
        KeyboardInterrupt: the user pressed Ctrl-C. Its message says what became of the write.
    """
    options = read_options(raw_options)
    storage, base_path = open_storage(path, options.prefixed(STORAGE_OPTIONS))
    stages = Stages("write", options[o.PROGRESS], partial(name_jobs, spark))
    request = _Request(spark, incoming, storage, base_path, options, stages, addition or CommitAddition())
    save_mode = _parse_mode(mode)
    lineage = make_lineage_run(options, storage.uri(base_path))
    done: PublishedCommit | None = None
    with end_at_interrupt(spark, lambda details: _describe_interrupt(base_path, done, details)):
        with stages:
            written = _report_lineage(lineage, partial(_write_repeatedly, request, path, save_mode))
        if written is None:
            return None
        done, table = written
        return follow_up_write(spark, table, done, stages, request.services.runs)


_Written: TypeAlias = tuple[PublishedCommit, TableState] | None


def _report_lineage(lineage: LineageRun | None, run: Callable[[], _Written]) -> _Written:
    """Call `run`, which writes, and report the begin and end of the write as OpenLineage events.

    Args:
        lineage: sends the events; None: no events are sent.

    Returns:
        The result of `run`. Its commit also has the outcome of the report.
    """
    if lineage is None:
        return run()
    lineage.start()
    try:
        written = run()
    except BaseException as e:
        lineage.fail(e)
        raise
    if written is None:
        lineage.complete_without_commit()
        return None
    commit, table = written
    outcome = lineage.complete(commit)
    return replace(commit, follow_ups=(*commit.follow_ups, outcome)), table


def _describe_interrupt(base_path: str, done: PublishedCommit | None, details: str) -> str:
    """Return a line for the user on what became of a write at Ctrl-C.

    Args:
        done: the commit if it is published. Then a table service after the write was interrupted, not the write.
        details: what `commit/change.py` says about the write or run that it undid; "" if none was under way.
    """
    if done is not None:
        return f"write {done.instant} of {base_path} is committed. {details or 'What follows a write was interrupted'}"
    return details or f"write of {base_path} was interrupted outside its commit. Table.history() shows whether it is committed"


def _write_repeatedly(request: _Request, path: str, mode: SaveMode) -> tuple[PublishedCommit, TableState] | None:
    """Write to the table. If another write began or completed in between (TableChanged), begin again, up to `_ATTEMPTS` times.

    Returns:
        The commit, and the table for the table services that follow; None if the mode is `ignore` and the table exists.

    Raises:
        TableChanged: another write came in between in the last attempt too.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _write_once(request, path, mode)
        except TableChanged:
            # Another write came between before anything was written. What the table looks like now decides what to do.
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


def _write_once(request: _Request, path: str, mode: SaveMode) -> tuple[PublishedCommit, TableState] | None:
    """Write to the table as it is now, or create it.

    Returns:
        The commit, and the table for the table services that follow; None if the mode is `ignore` and the table exists.

    Raises:
        TableChanged: another write began or completed after the table was loaded. No commit was published.
    """
    finish_overwrite(request.storage, request.base_path, request.options)
    exists = table_exists(request.storage, request.base_path)
    if exists and mode is SaveMode.IGNORE:
        return None
    if exists and mode is SaveMode.ERROR:
        raise TableExists(f"hoodie table at {request.base_path} already exists; use mode('append') to add to it")
    _check_delete(request, mode, exists)
    if not exists:
        return _create(request)
    if mode is SaveMode.OVERWRITE and request.options[o.OPERATION] is not Operation.INSERT_OVERWRITE_TABLE:
        return _overwrite(request)
    return _append(request, path)


def _append(request: _Request, path: str) -> tuple[PublishedCommit, TableState]:
    """Run the operation on an existing table.

    Returns:
        The commit, and the table with the resolved options, for the table services that follow.
    """
    table = open_finished(path, request.options)
    if request.addition.check_table is not None:
        request.addition.check_table(table)
    check_against_table(request.options, table.config, table.base_path)
    rows = request.rows_of(table)
    settings = resolve_settings(request.options, table.config, frozenset(rows.columns))
    make_index(settings.options).check(replace(table, options=settings.options))
    schema = read_table_schema(table)
    prepared = prepare_rows(rows, settings, schema)
    return _run_operation(request, table, settings, prepared, schema)


def _create(request: _Request) -> tuple[PublishedCommit, TableState]:
    """Create the table and write its first commit. If the write fails, delete the new table.

    The new table stays if the commit may have been published, or if another process writes to the table.

    Returns:
        The commit, and the table with the resolved options, for the table services that follow.

    Raises:
        TableChanged: another process created the table first, or began to write to the new table.
    """
    storage = request.storage
    base_path = request.base_path
    rows = request.rows_of(None)
    settings = resolve_settings(request.options, None, frozenset(rows.columns))
    prepared = prepare_rows(rows, settings, None)
    folder_existed = storage.stat(base_path) is not None
    try:
        table = create_table(storage, base_path, settings)
    except AlreadyExists as e:
        raise TableChanged(f"another process has just created {base_path}. Run the write again") from e
    try:
        make_index(settings.options).check(replace(table, options=settings.options))
        return _run_operation(request, table, settings, prepared)
    except (CommitUnknown, TableChanged):
        raise  # the commit may be published, or another process writes to the new table: its files are needed
    except (Exception, KeyboardInterrupt):
        with suppress(StorageError):
            withdraw_table(table, keep_folder=folder_existed)
        raise


def _overwrite(request: _Request) -> tuple[PublishedCommit, TableState]:
    """Replace an existing table: write a new table to a folder inside the old one, then swap the two (`commit/swap_tables.py`).

    Returns:
        The commit of the new table, and that table with the resolved options, for the table services that follow.

    Raises:
        OptionError: the folder has files that are not the table's, and `penstock.other.files` does not allow to delete them.
        WriteConflict: another writer is at work.
    """
    storage = request.storage
    if request.addition.check_table is not None:
        request.addition.check_table(open_finished(storage.uri(request.base_path), request.options))
    if request.options[o.OTHER_FILES] == "refuse":
        _refuse_foreign_files(storage, request.base_path)
    old = TableState(storage, request.base_path, _read_config(request), request.options)
    refuse_other_writers(old)
    new_path = new_table_path(request.base_path)
    try:
        # The heartbeat tells other processes that the new table is not a leftover.
        with keep_heartbeat(TableState(storage, new_path, TableConfig({}), request.options), OVERWRITE):
            commit, table = _create(replace(request, base_path=new_path))
    except KeyboardInterrupt:
        with suppress(StorageError):
            storage.delete_tree(new_path)
        raise KeyboardInterrupt(f"overwriting {request.base_path} was interrupted. The old table is as it was before") from None
    except Exception as e:
        with suppress(StorageError):
            storage.delete_tree(new_path)
        if not isinstance(e, CommitUnknown):
            raise
        # Although it is not known whether the commit was published, the write has failed: the tables were not swapped.
        raise StorageError(f"overwriting {request.base_path} failed, the old table is as it was: {e.__cause__}") from e
    swap_tables(old, new_path, commit.instant)
    return commit, replace(table, base_path=request.base_path)


def _read_config(request: _Request) -> TableConfig:
    """Return the properties of the table to overwrite; no properties if the table is damaged."""
    try:
        return read_config(request.storage, request.base_path)
    except (CorruptFile, TableNotFound, OptionError):
        return TableConfig({})


def _refuse_foreign_files(storage: Storage, base_path: str) -> None:
    """Raise OptionError if the folder of the table to overwrite has files that are not the table's. The message names some."""
    files = sorted(find_foreign_files(storage, base_path))
    if not files:
        return
    named = ", ".join(files[:_FILES_NAMED])
    more = f" and {len(files) - _FILES_NAMED:,} more" if len(files) > _FILES_NAMED else ""
    raise OptionError(
        f"mode('overwrite') would delete {format_count(len(files), 'file')} in {base_path} that the table does not own: "
        f"{named}{more}; move them elsewhere, or set {o.OTHER_FILES.key}=allow to delete them"
    )


def _run_operation(
    request: _Request, table: TableState, settings: WriteSettings, prepared: PreparedRows, schema: str | None = None
) -> tuple[PublishedCommit, TableState]:
    """Roll back earlier writes that failed, then run the operation that the settings name.

    Args:
        schema: the table's schema for which the rows were prepared; None: the table is new.

    Returns:
        The commit, and the table with the resolved options, for the table services that follow.

    Raises:
        TableChanged: another write completed since the rows were prepared, and the prepared rows may depend on the table's schema
            and rows.
    """
    settings = _choose_markers(table.storage, settings)
    table = replace(table, options=settings.options)
    check_inline(table, prepared.avro_schema)
    check_store(table)
    check_lock(table)
    check_hooks(HookContext(table, request.spark))
    known = table.timeline.completed_times
    table = roll_back_failed(turn_off_metadata_table(table))
    is_changed = not table.timeline.completed_times <= known
    if is_changed and is_optimistic(table) and not callable(request.rows):
        # Other writers are expected. Their commits do not matter to the prepared rows as long as the schema is the same.
        is_changed = read_table_schema(table) != schema
    if is_changed:
        raise TableChanged(f"another write to {table.base_path} completed just now. Run the write again")
    table = store_ordered_deletes(table)
    request.stages.restart(f"{settings.operation} {settings.table_name}")
    run = OPERATIONS[settings.operation]
    context = WriteContext(
        request.spark,
        table,
        settings,
        prepared,
        request.stages,
        unschedule_clustering,
        read_table=read_preview,
        base_schema=schema,
        reads_table=callable(request.rows),
        addition=request.addition,
    )
    with request.services.run(request.spark, table):
        return run(context), table


def _choose_markers(storage: Storage, settings: WriteSettings) -> WriteSettings:
    """Return the settings with one marker file per data file (DIRECT) if the table is on an object store; otherwise unchanged.

    This saves requests. Each task of an upsert or insert writes one file. So collecting the markers of a task in one file
    (TIMELINE_SERVER_BASED) would save no file, and the files would have to be read.

    On an object store too, the settings stay unchanged if the user chose a marker type, for a bulk_insert, whose tasks announce
    many files at once, and with early conflict detection, which works differently with each marker type.
    """
    stays = settings.options.is_set(o.MARKERS_TYPE) or settings.options[o.EARLY_CONFLICT_DETECTION]
    if stays or settings.operation is Operation.BULK_INSERT or not has_whole_files(storage):
        return settings
    return replace(settings, options=settings.options.replace({o.MARKERS_TYPE.key: MarkerStyle.DIRECT.value}))


def _parse_mode(mode: str | None) -> SaveMode:
    """Return the save mode of a name such as `append`; `error` for None.

    Raises:
        OptionError: Spark has no save mode of this name.
    """
    name = (mode or SaveMode.ERROR.value).lower()
    try:
        return _MODE_ALIASES.get(name) or SaveMode(name)
    except ValueError:
        raise OptionError(f"save mode {mode!r} is not known; use append, overwrite, ignore or error") from None


def _check_delete(request: _Request, mode: SaveMode, exists: bool) -> None:
    """Check that the save mode of a delete or delete_partition is append, and that the table exists. Other operations pass.

    Args:
        exists: whether the table exists.

    Raises:
        OptionError: the save mode is not append.
        TableNotFound: the table does not exist.
    """
    operation = request.options[o.OPERATION]
    if operation not in (Operation.DELETE, Operation.DELETE_PARTITION):
        return
    if mode is not SaveMode.APPEND:
        raise OptionError(f"Append is the only save mode applicable for {operation.stored} operation; use mode('append')")
    if not exists:
        raise TableNotFound(f"hoodie table at {request.base_path} does not exist; there is nothing to delete from")

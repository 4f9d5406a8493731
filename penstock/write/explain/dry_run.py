"""The dry run of a write, for the reports `explain_write` and `explain_merge`: with the checks and settings of a real write.

It takes no instant and writes no data file. It stages rows in a folder under `.hoodie/.temp`, and deletes the folder at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from penstock import clock
from penstock.commit.open_finished import open_finished
from penstock.errors import OptionError
from penstock.filegroup.markers import TEMP
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.options.storage import STORAGE_OPTIONS
from penstock.progress import Stages
from penstock.storage import join, open_storage
from penstock.table.state import TableState, read_table_schema, table_exists
from penstock.timeline.store import FOLDER
from penstock.write.context import WriteContext
from penstock.write.create_table import preview_table
from penstock.write.rows.schema import prepare_rows
from penstock.write.rows.staging import Staging
from penstock.write.settings import check_against_table, resolve_settings


@contextmanager
def open_dry_run(
    incoming: DataFrame, path: str, options: Mapping[str, object], spark: SparkSession | None = None
) -> Iterator[tuple[WriteContext, Staging]]:
    """Yield the `WriteContext` of a write that takes no instant, and a folder to stage its rows in. Delete the folder afterwards.

    If there is no table, the whole folder `.hoodie`, which only the dry run has created, is deleted.

    Args:
        path: the folder of the table. If there is no table, the context describes the table that the write would create.
        options: the options of the write, by their keys.
        spark: the session to use; None: the session of `incoming`.

    Raises:
        OptionError: the operation is bulk_insert, which reads no existing file; or an option is invalid.
    """
    write_options = read_options(options)
    storage, base_path = open_storage(path, write_options.prefixed(STORAGE_OPTIONS))
    exists = table_exists(storage, base_path)
    table = open_finished(path, write_options) if exists else None
    if table is not None:
        check_against_table(write_options, table.config, base_path)
    settings = resolve_settings(write_options, table.config if table else None, frozenset(incoming.columns))
    if settings.operation is Operation.BULK_INSERT:
        raise OptionError("bulk_insert looks at no existing file: there is nothing to explain. Explain insert, upsert or delete")
    prepared = prepare_rows(incoming, settings, read_table_schema(table) if table else None)
    state = table or preview_table(storage, base_path, settings)
    write = WriteContext(
        spark=spark or incoming.sparkSession,
        table=replace(state, options=settings.options),
        settings=settings,
        prepared=prepared,
        stages=Stages("explain", "off"),
        unschedule=_unschedule_nothing,
    )
    folder = join(base_path, FOLDER, TEMP, f"explain-{clock.new_uuid()}")
    try:
        yield write, Staging(storage, folder)
    finally:
        # If there is no table, the dry run has created the folder .hoodie itself.
        storage.delete_tree(folder if exists else join(base_path, FOLDER))


def _unschedule_nothing(table: TableState, time: str) -> None:
    """Raise AssertionError. A dry run sets this function as `WriteContext.unschedule` and never calls it.

    A real write calls `unschedule` to take a clustering plan off the timeline.
    """
    raise AssertionError("a write that is only explained takes no plan off the timeline")

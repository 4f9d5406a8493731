"""Where every write comes in: save modes, the table made or opened, options checked; then one operation runs.

Everything that can be found wrong without looking at rows is found here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock import options as o
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import OptionError, PenstockError, TableExists, TableNotFound
from penstock.keys.failures import typed_error
from penstock.options import Options, read_options
from penstock.storage import Storage, locate
from penstock.table import TableState, open_table, table_exists, table_schema
from penstock.write.create import create_table
from penstock.write.pipeline import OPERATIONS, Commit, Write
from penstock.write.prepare import prepare
from penstock.write.settings import check_against_table, resolve

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
) -> Commit | None:
    """Write rows to the table at `path`, which is created if it is not there.

    Returns:
        The commit; None if mode `ignore` met a table.
    """
    storage, base_path = locate(path)
    options = read_options(raw_options)
    exists = table_exists(storage, base_path)
    save_mode = _save_mode(mode)
    if exists and save_mode == "ignore":
        return None
    if exists and save_mode == "error":
        raise TableExists(f"hoodie table at {base_path} already exists.; use mode('append') to add to it")
    _check_mode(options, save_mode, exists, base_path)
    replaces = exists and save_mode == "overwrite"
    table = open_table(path, options) if exists and not replaces else None
    if table is not None:
        check_against_table(options, table.config, base_path)
    return _run(spark, incoming, storage, base_path, options, table, replaces)


def _run(
    spark: SparkSession,
    incoming: DataFrame,
    storage: Storage,
    base_path: str,
    options: Options,
    table: TableState | None,
    replaces: bool,
) -> Commit:
    settings = resolve(options, table.config if table else None, frozenset(incoming.columns))
    prepared = prepare(incoming, settings, table_schema(table) if table else None)
    if table is None:
        if replaces:
            storage.delete_tree(base_path)
        table = create_table(storage, base_path, settings)
    table = turn_off_metadata_table(table)
    operation = OPERATIONS[settings.operation]
    try:
        return operation(Write(spark, table, settings, prepared))
    except PySparkException as e:
        raise (typed_error(str(e)) or e) from e


def _save_mode(mode: str | None) -> str:
    try:
        return _MODES[(mode or "error").lower()]
    except KeyError:
        raise OptionError(f"save mode {mode!r} is not known; use append, overwrite, ignore or error") from None


def _check_mode(options: Options, mode: str, exists: bool, base_path: str) -> None:
    operation = options[o.OPERATION]
    if operation == "delete":
        if mode != "append":
            raise OptionError("Append is the only save mode applicable for DELETE operation; use mode('append')")
        if not exists:
            raise TableNotFound(f"hoodie table at {base_path} does not exist; there is nothing to delete from")


__all__ = ["PenstockError", "write"]

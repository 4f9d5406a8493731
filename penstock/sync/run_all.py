"""Runs all sync tools that the options name, one after the other. An error of one tool does not stop the next one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from penstock import options as o
from penstock.errors import CatalogConflict, CatalogError, PenstockError
from penstock.hive_metastore import ANSWER_S
from penstock.sync.catalog import CatalogClient
from penstock.sync.changes import load_synced_state
from penstock.sync.known_catalogs import ClientRequest, check_tools, open_client
from penstock.sync.settings import SyncSettings
from penstock.sync.sync_table import SyncedTable, check_paths, check_sync, load_settings, run_sync
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata
from penstock.user_warning import warn_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many seconds a check before a commit waits for each answer of a metastore or of HiveServer2.
_CHECK_ANSWER_S = 20.0


def run_tools(table: TableState, spark: SparkSession | None = None) -> list[SyncedTable]:
    """Sync the table to every catalog that the options name. Return what was done, one entry per registered table.

    Args:
        table: the table with the options of the sync.
        spark: the session, which mode `hiveql` needs. If it has a Hive catalog, its next query sees the changes.

    Raises:
        OptionError: an option has a wrong form, or a partition path does not fit the extractor.
        CatalogError: a catalog cannot be reached, or refuses a change. The message names every tool that failed.
    """
    check_tools(table.options)
    state = load_synced_state(table)
    settings = load_settings(state.table, find_spark_version(spark))
    synced: list[SyncedTable] = []
    errors: dict[str, PenstockError] = {}
    for tool in table.options[o.META_SYNC_TOOLS]:
        try:
            with _open(tool, settings, spark) as client:
                if client is not None:
                    synced += [replace(each, tool=tool) for each in run_sync(state, settings, client)]
        except PenstockError as e:
            errors[tool] = e
    refresh(spark, synced)
    if len(errors) == 1 and len(table.options[o.META_SYNC_TOOLS]) == 1:
        raise next(iter(errors.values()))
    if errors:
        raise CatalogError("; ".join(f"{tool}: {error}" for tool, error in errors.items()))
    return synced


def check_tools_before_commit(table: TableState, commit: CommitMetadata, spark: SparkSession | None = None) -> None:
    """Check before a commit is published that no catalog will refuse its sync. A catalog that does not answer is not an error.

    The commit waits for each answer for `_CHECK_ANSWER_S` seconds at most, less long than a sync after the commit.

    Args:
        commit: the metadata of the commit that is about to be published, with its schema and partitions.

    Raises:
        OptionError: an option has a wrong form, or a partition path of the commit does not fit the extractor.
        CatalogConflict: a catalog holds an entry that a sync may not change.
    """
    check_tools(table.options)
    if commit.schema is None:
        return
    settings = load_settings(table, find_spark_version(spark), commit.schema)
    paths = tuple(commit.by_partition())
    check_paths(settings, paths)
    for tool in table.options[o.META_SYNC_TOOLS]:
        try:
            with _open(tool, settings, spark, _CHECK_ANSWER_S) as client:
                if client is not None:
                    check_sync(settings, client, paths)
        except CatalogConflict:
            raise
        except CatalogError:
            continue  # the sync after the commit reports it, and can be run again


def find_spark_version(spark: SparkSession | None) -> str:
    """Return the version of Spark: that of the session, otherwise that of the installed PySpark; empty if neither exists."""
    if spark is not None:
        return str(spark.version)
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


def refresh(spark: SparkSession | None, synced: list[SyncedTable]) -> None:
    """Make a session drop its cached metadata of the synced tables, so that its next query sees the changes.

    Does nothing if there is no session, or if the session has no Hive catalog.
    """
    if spark is None or spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "hive":
        return
    for table in synced:
        with suppress(Exception):  # the session may use another metastore, which has no such table
            spark.catalog.refreshTable(f"`{table.database}`.`{table.name}`")


@contextmanager
def _open(
    tool: str, settings: SyncSettings, spark: SparkSession | None, answer_s: float = ANSWER_S
) -> Iterator[CatalogClient | None]:
    """Open the client of a sync tool for the `with` block, and close it afterwards.

    Yields None if the catalog cannot be reached and `hoodie.datasource.hive_sync.ignore_exceptions` is true.

    Raises:
        CatalogError: the catalog cannot be reached, or the client of a user raised an error of any type, also in the block.
    """
    client: CatalogClient | None = None
    try:
        with _explained(tool):
            client = open_client(tool, ClientRequest(settings, spark, answer_s))
    except CatalogError as e:
        if not settings.options[o.HIVE_SYNC_IGNORE_EXCEPTIONS]:
            raise
        warn_user(f"{tool} does nothing, because {o.HIVE_SYNC_IGNORE_EXCEPTIONS.key}=true: {e}")
    try:
        with _explained(tool):
            yield client
    finally:
        if client is not None:
            with suppress(Exception):  # the connection may be broken; what was done stays done
                client.close()


@contextmanager
def _explained(tool: str) -> Iterator[None]:
    """Convert errors inside the `with` block that are not Penstock's, such as those of a user's client, to CatalogErrors.

    So the next tool still runs, and a check before a commit does not stop the commit.

    Args:
        tool: the name of the sync tool, for the message.
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception as e:
        reason = str(e).strip().partition("\n")[0]
        raise CatalogError(f"sync tool {tool} failed: {type(e).__name__}: {reason}") from e

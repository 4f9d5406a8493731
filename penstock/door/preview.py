"""Reads a table as it would be after a commit that is not published yet. Validators before a commit use it.

The query is planned and run as any other. Only its storage differs: the completed file of the commit is added, and files of task
attempts that the commit does not name are hidden. Nothing is written.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from penstock.commit.markers import read_markers
from penstock.hooks import PendingCommit
from penstock.options import read_options
from penstock.read.log_headers import read_log_headers
from penstock.read.plan import plan_query
from penstock.read.query import Query
from penstock.read.scan import scan
from penstock.read.spark_file_system import spark_can_read
from penstock.storage import join
from penstock.storage.overlay import OverlayStorage
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.commit_file import write_commit
from penstock.timeline.instant import Instant, State
from penstock.timeline.store import instant_path


def read_preview(spark: SparkSession, table: TableState, commit: PendingCommit | None) -> DataFrame:
    """Return a snapshot of the table as it would be after a commit.

    Args:
        table: the table that is about to change. Its timeline may be older than the commit.
        commit: the commit that is about to be published; None: return the table as it is now.
    """
    if commit is not None:
        table = replace(table, storage=_add_commit(table, commit))
    # Not through `open_query`: its cache would keep the DataFrame of a commit that may never be published.
    plan = plan_query(Query(table.uri, "snapshot", read_options({})), reload_timeline(table))
    return scan(spark, read_log_headers(plan, for_spark=spark_can_read(spark, table)))


def _add_commit(table: TableState, commit: PendingCommit) -> OverlayStorage:
    """Return a view of the table's storage that has the completed file of the commit, and hides files of repeated task attempts.

    These are files that markers of the commit announce and the commit does not name.
    """
    completed = instant_path(table.base_path, Instant(commit.instant, commit.action, State.COMPLETED))
    announced = {marker.file_path for marker in read_markers(table.storage, table.base_path, commit.instant)}
    strays = announced - {stat.path for stat in commit.metadata.stats}
    hidden = frozenset(join(table.base_path, path) for path in strays)
    return OverlayStorage(table.storage, ((completed, write_commit(commit.metadata)),), hidden)

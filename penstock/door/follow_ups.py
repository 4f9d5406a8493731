"""Stage 8: what follows a commit, in Hudi's order: clean, archive, compact, join logs, cluster, let old partitions go.

The commit stands whatever happens here. A service that fails, be it with an error of Spark's own, is reported: in the commit
that the writer gets back, and as a warning, or as an error where the options ask for one. Failed writes of others are undone
where cleaning is, under the lazy policy, also if nothing is cleaned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from penstock import options as o
from penstock.catalog.pending import clustering_plans, pending_plans
from penstock.commit.heartbeat import is_lazy
from penstock.door.expire import expire_partitions
from penstock.door.services import stages_of
from penstock.errors import PenstockError, StorageError
from penstock.options import Options
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.clustering.after_write import clusters_after_write
from penstock.services.clustering.run import cluster
from penstock.services.clustering.schedule import schedule_clustering
from penstock.services.compaction.run import compact
from penstock.services.compaction.schedule import schedule
from penstock.services.log_compaction.run import join_logs
from penstock.services.rollback.failed_writes import roll_back_expired
from penstock.table import TableState, reload_timeline


@dataclass(frozen=True)
class _Service:
    """Something that runs after a commit."""

    name: str
    run: Callable[[SparkSession, TableState], object]
    is_on: Callable[[TableState], bool]
    #: Whether an error is raised unless the options say otherwise; if not, only if they ask for it.
    raises: bool = False


def follow_up(spark: SparkSession, table: TableState) -> tuple[str, ...]:
    """Run what is due; gives what failed, with the reason, one text for each."""
    due = [service for service in SERVICES if service.is_on(table)]
    if not due:
        return ()
    failed = []
    try:
        table = reload_timeline(table)
    except StorageError as e:
        return (_report("looking for what is due", e, raises=_raises(table.options)),)
    for service in due:
        try:
            service.run(spark, table)
        except Exception as e:  # of ours, of Spark's, or for a file that another process has archived or cleaned just now
            failed.append(_report(service.name, e, raises=_raises(table.options, unless_told=service.raises)))
    return tuple(failed)


def _raises(options: Options, *, unless_told: bool = False) -> bool:
    """Whether a failure is an error: as the options say, or as it is unless they say anything."""
    given = options.is_set(o.FAIL_ON_SERVICE_EXCEPTION) or unless_told
    return given and options[o.FAIL_ON_SERVICE_EXCEPTION]


def _report(name: str, error: Exception, *, raises: bool) -> str:
    text = f"the write is done, do not run it again; but {name} failed: {words_of(error)}"
    if raises:
        raise (type(error) if isinstance(error, PenstockError | FileNotFoundError) else PenstockError)(text) from error
    warnings.warn(text, RuntimeWarning, stacklevel=4)
    return f"{name}: {words_of(error)}"


def words_of(error: Exception) -> str:
    """What went wrong, for a report. Of an error that is not ours the kind and the first line: more of Spark's are a stack."""
    if isinstance(error, PenstockError | FileNotFoundError):
        return str(error)
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _cleans(table: TableState) -> bool:
    return table.options[o.TABLE_SERVICES_ENABLED] and table.options[o.CLEAN_AUTOMATIC]


def _clean(spark: SparkSession, table: TableState) -> None:
    clean(spark, table, stages_of("clean", table, spark))


def _undo_failed(spark: SparkSession, table: TableState) -> None:
    roll_back_expired(table)


def _archives(table: TableState) -> bool:
    return table.options[o.TABLE_SERVICES_ENABLED] and table.options[o.ARCHIVE_AUTOMATIC]


def _archive(spark: SparkSession, table: TableState) -> None:
    archive(table, stages_of("archive", table, spark))


def _compacts(table: TableState) -> bool:
    return table.is_merge_on_read and table.options[o.TABLE_SERVICES_ENABLED]


def _compact(spark: SparkSession, table: TableState) -> None:
    """Run compactions that wait and one that is due; or only plan it, for somebody else to run."""
    if compacts_inline(table.options):
        compact(spark, table, stages_of("compact", table, spark))
    elif table.options[o.COMPACT_SCHEDULE_INLINE] and not pending_plans(reload_timeline(table)):
        schedule(table)


def _join(spark: SparkSession, table: TableState) -> None:
    join_logs(spark, table, stages_of("join logs of", table, spark))


def _cluster(spark: SparkSession, table: TableState) -> None:
    """Run clusterings that wait and one that is due; or only plan it, for somebody else to run."""
    if table.options[o.CLUSTERING_INLINE]:
        cluster(spark, table, stages_of("cluster", table, spark))
    elif not clustering_plans(reload_timeline(table)):
        schedule_clustering(table)


def _expire(spark: SparkSession, table: TableState) -> None:
    expire_partitions(table, stages_of("expire partitions of", table, spark), spark)


def _expires(table: TableState) -> bool:
    return table.options[o.TABLE_SERVICES_ENABLED] and table.options[o.TTL_INLINE]


#: In the order they run in.
SERVICES = (
    _Service("rolling back failed writes", _undo_failed, lambda table: is_lazy(table) and not _cleans(table)),
    _Service("cleaning", _clean, _cleans),
    _Service("archiving", _archive, _archives),
    _Service("the compaction after it", _compact, _compacts, raises=True),
    _Service("joining logs", _join, lambda table: _compacts(table) and table.options[o.LOG_COMPACTION_INLINE], raises=True),
    _Service("the clustering after it", _cluster, clusters_after_write, raises=True),
    _Service("deleting old partitions", _expire, _expires, raises=True),
)


def compacts_inline(options: Options) -> bool:
    """Whether a write to a merge-on-read table compacts: unless it is told otherwise, or that somebody else does."""
    if options.is_set(o.COMPACT_INLINE):
        return options[o.COMPACT_INLINE]
    others = options.is_set(o.COMPACTION_ASYNC) and options[o.COMPACTION_ASYNC]
    return not others and not options[o.COMPACT_SCHEDULE_INLINE]

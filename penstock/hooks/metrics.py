"""Metrics of commits, cleans and rollbacks, with Hudi's names: `<prefix>.<action>.<metric>`, such as `trips.commit.duration`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from penstock import clock
from penstock import options as o
from penstock.hooks.commit_hook import Hook, HookContext, LockUse, PublishedCommit
from penstock.hooks.reporters import Reporter, make_reporters
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.table.state import KEEPS_SCHEMA, TableState
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import Action, parse_time
from penstock.user_warning import warn_user

#: Services whose metrics do not have the action of the completed file.
_ACTIONS = {Operation.COMPACT.stored: Action.COMPACTION, Operation.LOG_COMPACT.stored: Action.LOG_COMPACTION}
#: The stages of a write that locate keys.
_INDEX_STAGES = ("tag", "index")
#: The stage of a clustering that writes files.
_CLUSTER_STAGE = "cluster"
#: The values of `hoodie.index.type` in the order of Hudi. The metric `index.type` is the position of the table's index.
_INDEX_TYPES = (
    "HBASE",
    "INMEMORY",
    "BLOOM",
    "GLOBAL_BLOOM",
    "SIMPLE",
    "GLOBAL_SIMPLE",
    "BUCKET",
    "FLINK_STATE",
    "RECORD_INDEX",
)


@dataclass(frozen=True)
class Metrics(Hook):
    """Reports the metrics of each commit, of writes and of table services."""

    context: HookContext
    reporters: tuple[Reporter, ...]

    def after_commit(self, commit: PublishedCommit) -> None:
        """Pass the metrics of a commit to each reporter. If a reporter raises an error, the caller turns it into a warning."""
        table = self.context.table
        action = _ACTIONS.get(commit.operation, commit.action)
        values = _count_commit(table, commit, self.context.stages)
        named = _add_names(table, action.value, values)
        files = sum(stat.path is not None for stat in commit.metadata.stats)
        named |= _add_names(table, "finalize", {"duration": int(commit.finalized_s * 1000), "numFilesFinalized": files})
        if commit.operation == Operation.COMPACT.stored:
            named |= _add_names(table, "counter", {"compaction.completed": 1})
        index = table.options[o.INDEX_TYPE]
        if commit.operation not in KEEPS_SCHEMA and index in _INDEX_TYPES:
            named |= _add_names(table, "index", {"type": _INDEX_TYPES.index(index)})
        if self.context.stages is not None:
            named |= _time_stages(table, commit, self.context.stages)
        if _reports_lock(table) and commit.lock is not None:
            named |= _add_names(table, "lock", _count_lock(commit.lock))
            conflicts = len(self.context.stages.conflicts) if self.context.stages is not None else 0
            counts = {"conflict_resolution.success": 1, "conflict_resolution.failure": conflicts}
            named |= _add_names(table, "counter", counts)
        for report in self.reporters:
            report(named)


def make_metrics(context: HookContext) -> Hook | None:
    """Return the hook that reports metrics; None if the options turn no reporter on.

    Raises:
        OptionError: the reporter cannot be used.
    """
    reporters = make_reporters(context.table.options, _prefix(context.table))
    return Metrics(context, tuple(reporters)) if reporters else None


def report_service(table: TableState, action: Action, *, duration_ms: int, files_deleted: int) -> None:
    """Report the metrics of a clean or rollback. Called by these services, because hooks are not called for them.

    An error of a reporter becomes a warning.

    Args:
        duration_ms: how long the service took.
        files_deleted: the number of files that the service deleted.
    """
    values = {"duration": duration_ms, "numFilesDeleted": files_deleted}
    _report(table, action.value, _add_names(table, action.value, values))


def report_plan(table: TableState, action: Action) -> None:
    """Report that the plan of a compaction was stored on the timeline. As in Hudi, plans of other actions are not reported.

    An error of a reporter becomes a warning.
    """
    if action is Action.COMPACTION:
        _report(table, "plan of a compaction", _add_names(table, "counter", {"compaction.requested": 1}))


def _report(table: TableState, event: str, named: Mapping[str, float]) -> None:
    """Report metrics by their full names. An error of a reporter becomes a warning, because the event has happened.

    Args:
        event: what the metrics are about, as the warning says it.
        named: full name of each metric → its value.
    """
    try:
        for report in make_reporters(table.options, _prefix(table)):
            report(named)
    except Exception as e:
        warn_user(f"metrics of the {event} of {table.uri} were not reported: {type(e).__name__}: {e}")


def _prefix(table: TableState) -> str:
    """Return the first part of all metric names: `hoodie.metrics.reporter.metricsname.prefix`, or the table's name if not set."""
    return table.options[o.METRICS_PREFIX] or table.config.name


def _add_names(table: TableState, action: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return the values with the full names of the metrics, `<prefix>.<action>.<metric>`, as keys.

    Args:
        values: the values by the last part of their names.
    """
    return {f"{_prefix(table)}.{action}.{name}": value for name, value in values.items()}


def _count_commit(table: TableState, commit: PublishedCommit, stages: Stages | None) -> dict[str, float]:
    """Return the metrics of a commit, by Hudi's names without prefix and action.

    Args:
        stages: the stages of the operation, from which its duration is taken. None: the duration is the time since its instant.
    """
    stats = commit.metadata.stats
    new_files = [stat for stat in stats if stat.prev_commit == "null"]
    began_ms = _epoch_ms(table, commit.instant)
    values: dict[str, float] = {
        "commitTime": began_ms,
        "duration": int(stages.seconds * 1000) if stages is not None else max(clock.now_ms() - began_ms, 0),
        "totalPartitionsWritten": len(commit.metadata.by_partition()),
        "totalFilesInsert": len(new_files),
        "totalFilesUpdate": len(stats) - len(new_files),
        "totalRecordsWritten": sum(stat.num_writes for stat in stats),
        "totalUpdateRecordsWritten": sum(stat.num_update_writes for stat in stats),
        "totalInsertRecordsWritten": sum(stat.num_inserts for stat in stats),
        "totalRecordsDeleted": sum(stat.num_deletes for stat in stats),
        "totalBytesWritten": commit.metadata.bytes_written,
        "totalScanTime": _sum_times(stats, "totalScanTime"),
        "totalCreateTime": _sum_times(stats, "totalCreateTime"),
        "totalUpsertTime": _sum_times(stats, "totalUpsertTime"),
        "totalCompactedRecordsUpdated": sum(stat.total_updated_records_compacted for stat in stats),
        "totalLogFilesCompacted": sum(stat.total_log_files_compacted for stat in stats),
        "totalLogFilesSize": sum(stat.total_log_size_compacted for stat in stats),
    }
    ages = {"commitFreshnessInMs": "penstock.freshness.ms", "commitLatencyInMs": "penstock.latency.ms"}
    for name, key in ages.items():
        if key in commit.metadata.extra:
            values[name] = int(commit.metadata.extra[key])
    return values


def _time_stages(table: TableState, commit: PublishedCommit, stages: Stages) -> dict[str, float]:
    """Return the durations of some stages of an operation in milliseconds, by the full names of their metrics.

    `index.<operation>.duration` is the time in which the index located keys, which Hudi reports for upserts alone, as
    `source_read_and_index.duration.duration`. `fileCreationTime` is the time in which a clustering wrote files.
    """
    named: dict[str, float] = {}
    index_s = [stage.seconds for stage in stages.done if stage.name in _INDEX_STAGES]
    if index_s:
        duration = {"duration": int(sum(index_s) * 1000)}
        named |= _add_names(table, f"index.{commit.operation}", duration)
        if commit.operation == Operation.UPSERT.stored:
            named |= _add_names(table, "source_read_and_index.duration", duration)
    cluster_s = [stage.seconds for stage in stages.done if stage.name == _CLUSTER_STAGE]
    if cluster_s and commit.operation == Operation.CLUSTER.stored:
        named |= _add_names(table, commit.action.value, {"fileCreationTime": int(sum(cluster_s) * 1000)})
    return named


def _reports_lock(table: TableState) -> bool:
    """Whether the use of the lock is reported too. If the option is not set, it is, as in Hudi."""
    return not table.options.is_set(o.METRICS_LOCK) or table.options[o.METRICS_LOCK]


def _count_lock(lock: LockUse) -> dict[str, float]:
    """Return how a commit used the lock, as metrics with Hudi's names, in milliseconds and counts.

    What Hudi calls `acquire.duration` is the time for which the lock was held.
    """
    return {
        "acquire.attempts": lock.attempts,
        "acquire.success": 1,
        "acquire.failure": lock.attempts - 1,
        "request.latency": int(lock.waited_s * 1000),
        "acquire.duration": int(lock.held_s * 1000),
    }


def _sum_times(stats: tuple[WriteStat, ...], name: str) -> int:
    """Return the sum over all files of one time in their runtime stats, in milliseconds. A file without this time adds 0.

    Args:
        name: the name of the time, for example `totalScanTime`.
    """
    return sum((stat.runtime_stats or {}).get(name) or 0 for stat in stats)


def _epoch_ms(table: TableState, instant: str) -> int:
    """Convert an instant time to milliseconds since the epoch. The table's timeline is in UTC or in the machine's time zone."""
    at: datetime = parse_time(instant)
    zoned = at.replace(tzinfo=timezone.utc) if table.config.timeline_utc else at.astimezone()
    return int(zoned.timestamp() * 1000)

"""Compaction strategies: choose the file slices to compact, and their order.

A strategy first chooses partition paths, and only these partitions are listed. Then it chooses among the possible operations of
the plan, one per file slice with log files. A new strategy is one entry of `STRATEGIES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta

from penstock import clock
from penstock import options as o
from penstock.errors import OptionError
from penstock.options import Options
from penstock.services.plan_metrics import IO_MB, LOG_BYTES, LOG_FILES
from penstock.timeline.compaction_plan import CompactionOperation

_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
_DAY = re.compile(r"([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?:/.*)?")
#: The `column=` parts of a Hive-style partition path.
_COLUMN = re.compile(r"(^|/)[^/=]*=")


@dataclass(frozen=True)
class CompactionLimits:
    """The limits of all compaction strategies, from the options. A strategy uses some of these limits."""

    io_mb: int
    log_bytes: int
    log_files: int
    day_partitions: int
    today: date


Operations = Sequence[CompactionOperation]
OperationChoice = Callable[[Operations, CompactionLimits], list[CompactionOperation]]
PartitionChoice = Callable[[Sequence[str], CompactionLimits], list[str]]


def all_partitions(paths: Sequence[str], limits: CompactionLimits) -> list[str]:
    """Return `paths` unchanged: the strategy considers all partitions."""
    return list(paths)


@dataclass(frozen=True)
class Strategy:
    """How a compaction plan chooses the partitions to list, and the operations (file slices to compact) in them."""

    choose: OperationChoice
    #: Chooses the partitions to list.
    choose_partitions: PartitionChoice = all_partitions


def strategy_of(options: Options) -> tuple[Strategy, CompactionLimits]:
    """Return the strategy that `hoodie.compaction.strategy` names, and the limits. Raise OptionError if it is unknown."""
    name = options[o.COMPACTION_STRATEGY].strip()
    strategy = STRATEGIES.get(name if "." in name else _PACKAGE + name)
    if strategy is None:
        raise OptionError(f"{o.COMPACTION_STRATEGY.key}={name!r} is not known; use one of {', '.join(STRATEGIES)}")
    limits = CompactionLimits(
        io_mb=options[o.COMPACTION_TARGET_IO_MB],
        log_bytes=options[o.COMPACTION_LOG_SIZE_THRESHOLD],
        log_files=options[o.COMPACTION_LOG_COUNT_THRESHOLD],
        day_partitions=options[o.COMPACTION_DAY_PARTITIONS],
        today=clock.local_now().date(),
    )
    return strategy, limits


def take_all(operations: Operations, limits: CompactionLimits) -> list[CompactionOperation]:
    """Return all operations: the strategy compacts every file slice that has log files."""
    return list(operations)


def take_while_io(operations: Operations, limits: CompactionLimits) -> list[CompactionOperation]:
    """Return the first operations, until the sum of the megabytes that they read and write reaches `limits.io_mb`.

    As in Hudi, the last operation may exceed the limit.
    """
    chosen = []
    used_mb = 0.0
    for operation in operations:
        chosen.append(operation)
        used_mb += operation.metrics[IO_MB]
        if used_mb >= limits.io_mb:
            break
    return chosen


def take_largest_logs(operations: Operations, limits: CompactionLimits) -> list[CompactionOperation]:
    """Return the operations with the most bytes of log files, in this order, until they read and write `limits.io_mb` megabytes.

    Operations with fewer bytes of log files than `limits.log_bytes` are left out.
    """
    return take_while_io(_sort_by_metric(operations, LOG_BYTES, limits.log_bytes), limits)


def take_most_logs(operations: Operations, limits: CompactionLimits) -> list[CompactionOperation]:
    """Return the operations with the most log files, in this order, until they read and write `limits.io_mb` megabytes.

    Operations with fewer log files than `limits.log_files` are left out.
    """
    return take_while_io(_sort_by_metric(operations, LOG_FILES, limits.log_files), limits)


def _sort_by_metric(operations: Operations, metric: str, least: int) -> list[CompactionOperation]:
    """Return the operations whose metric named `metric` is at least `least`, the highest metric first."""
    enough = [operation for operation in operations if operation.metrics[metric] >= least]
    return sorted(enough, key=lambda operation: operation.metrics[metric], reverse=True)


def newest_days(paths: Sequence[str], limits: CompactionLimits) -> list[str]:
    """Return the `limits.day_partitions` partitions with the latest day in their path, newest first."""
    return sorted(paths, key=day_of, reverse=True)[: limits.day_partitions]


def recent_days(paths: Sequence[str], limits: CompactionLimits) -> list[str]:
    """Return the partitions of today, of later days and of the `limits.day_partitions` days before today, newest first."""
    first = limits.today - timedelta(days=limits.day_partitions)
    return sorted((path for path in paths if day_of(path) >= first), key=day_of, reverse=True)


def earlier_days(paths: Sequence[str], limits: CompactionLimits) -> list[str]:
    """Return the partitions of days more than `limits.day_partitions` days before today, newest first."""
    recent = set(recent_days(paths, limits))
    return [path for path in sorted(paths, key=day_of, reverse=True) if path not in recent]


def day_of(path: str) -> date:
    """Return the day in a partition path: `2026/01/31`, `year=2026/month=01/day=31` or `2026-01-31`.

    Raises:
        OptionError: the path does not have one of these forms.
    """
    match = _DAY.fullmatch(_COLUMN.sub(r"\1", path))
    if match:
        with suppress(ValueError):
            return date(int(match[1]), int(match[2]), int(match[3]))
    raise OptionError(
        f"Invalid Partition Date Format: {path!r} is no day such as 2026/01/31; choose a {o.COMPACTION_STRATEGY.key} "
        "that does not go by days"
    )


def take_by_day(operations: Operations, limits: CompactionLimits) -> list[CompactionOperation]:
    """Return all operations, sorted by the day of their partition, newest day first."""
    return sorted(operations, key=lambda operation: day_of(operation.partition_path), reverse=True)


#: Java class → strategy.
STRATEGIES: dict[str, Strategy] = {
    f"{_PACKAGE}LogFileSizeBasedCompactionStrategy": Strategy(take_largest_logs),
    f"{_PACKAGE}LogFileNumBasedCompactionStrategy": Strategy(take_most_logs),
    f"{_PACKAGE}BoundedIOCompactionStrategy": Strategy(take_while_io),
    f"{_PACKAGE}UnBoundedCompactionStrategy": Strategy(take_all),
    f"{_PACKAGE}DayBasedCompactionStrategy": Strategy(take_by_day, newest_days),
    f"{_PACKAGE}BoundedPartitionAwareCompactionStrategy": Strategy(take_by_day, recent_days),
    f"{_PACKAGE}UnBoundedPartitionAwareCompactionStrategy": Strategy(take_by_day, earlier_days),
}

"""Which file groups a compaction takes, and in which order: kernels over what could be done. A new strategy is one entry.

A strategy may look at partition paths first, so that the others are not even listed, and then at the operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate

from penstock import clock
from penstock import options as o
from penstock.errors import OptionError
from penstock.options import Options
from penstock.timeline.compaction_plan import CompactionOperation

LOG_FILES, LOG_BYTES = "TOTAL_LOG_FILES", "TOTAL_LOG_FILES_SIZE"
READ_MB, WRITE_MB, IO_MB = "TOTAL_IO_READ_MB", "TOTAL_IO_WRITE_MB", "TOTAL_IO_MB"

_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
_DAY = re.compile(r"([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?:/.*)?")
_COLUMN = re.compile(r"(^|/)[^/=]*=")


@dataclass(frozen=True)
class Bounds:
    """How much a strategy may take."""

    io_mb: int
    log_bytes: int
    log_files: int
    day_partitions: int
    today: date


Operations = Sequence[CompactionOperation]
Choosing = Callable[[Operations, Bounds], list[CompactionOperation]]
Looking = Callable[[Sequence[str], Bounds], list[str]]


@dataclass(frozen=True)
class Strategy:
    """How a plan is chosen."""

    choose: Choosing
    #: Partition paths that are looked at.
    partitions: Looking = lambda paths, bounds: list(paths)


def strategy_of(options: Options) -> tuple[Strategy, Bounds]:
    """The strategy that the options name, and its bounds. Raises OptionError."""
    name = options[o.COMPACTION_STRATEGY].strip()
    found = STRATEGIES.get(name if "." in name else _PACKAGE + name)
    if found is None:
        raise OptionError(f"{o.COMPACTION_STRATEGY.key}={name!r} is not known; use one of {', '.join(STRATEGIES)}")
    bounds = Bounds(
        io_mb=options[o.COMPACTION_TARGET_IO_MB],
        log_bytes=options[o.COMPACTION_LOG_SIZE_THRESHOLD],
        log_files=options[o.COMPACTION_LOG_COUNT_THRESHOLD],
        day_partitions=options[o.COMPACTION_DAY_PARTITIONS],
        today=clock.local_now().date(),
    )
    return found, bounds


def take_all(operations: Operations, bounds: Bounds) -> list[CompactionOperation]:
    """Everything."""
    return list(operations)


def take_while_io(operations: Operations, bounds: Bounds) -> list[CompactionOperation]:
    """In order, up to the operation that uses up the allowed reading and writing; that one is taken too."""
    used = accumulate(one.metrics[IO_MB] for one in operations)
    enough = next((number for number, mb in enumerate(used, start=1) if mb >= bounds.io_mb), len(operations))
    return list(operations[:enough])


def take_largest_logs(operations: Operations, bounds: Bounds) -> list[CompactionOperation]:
    """Those with most bytes of log files first, within the allowed reading and writing."""
    return take_while_io(_most(operations, LOG_BYTES, bounds.log_bytes), bounds)


def take_most_logs(operations: Operations, bounds: Bounds) -> list[CompactionOperation]:
    """Those with most log files first, within the allowed reading and writing."""
    return take_while_io(_most(operations, LOG_FILES, bounds.log_files), bounds)


def _most(operations: Operations, metric: str, least: int) -> list[CompactionOperation]:
    enough = [one for one in operations if one.metrics[metric] >= least]
    return sorted(enough, key=lambda one: one.metrics[metric], reverse=True)


def newest_days(paths: Sequence[str], bounds: Bounds) -> list[str]:
    """The partitions of the newest days."""
    return sorted(paths, key=day_of, reverse=True)[: bounds.day_partitions]


def recent_days(paths: Sequence[str], bounds: Bounds) -> list[str]:
    """Partitions of the last days, and of those to come."""
    first = bounds.today - timedelta(days=bounds.day_partitions)
    return sorted((path for path in paths if day_of(path) >= first), key=day_of, reverse=True)


def earlier_days(paths: Sequence[str], bounds: Bounds) -> list[str]:
    """Partitions of the days before the last ones."""
    recent = set(recent_days(paths, bounds))
    return [path for path in sorted(paths, key=day_of, reverse=True) if path not in recent]


def day_of(path: str) -> date:
    """The day that a partition path stands for: `2026/01/31`, `year=2026/month=01/day=31`, `2026-01-31`. Raises OptionError."""
    match = _DAY.fullmatch(_COLUMN.sub(r"\1", path))
    if match:
        with suppress(ValueError):
            return date(int(match[1]), int(match[2]), int(match[3]))
    raise OptionError(
        f"Invalid Partition Date Format: {path!r} is no day such as 2026/01/31; choose a {o.COMPACTION_STRATEGY.key} "
        "that does not go by days"
    )


def _by_day(operations: Operations, bounds: Bounds) -> list[CompactionOperation]:
    return sorted(operations, key=lambda one: day_of(one.partition_path), reverse=True)


#: Java class → strategy.
STRATEGIES: dict[str, Strategy] = {
    f"{_PACKAGE}LogFileSizeBasedCompactionStrategy": Strategy(take_largest_logs),
    f"{_PACKAGE}LogFileNumBasedCompactionStrategy": Strategy(take_most_logs),
    f"{_PACKAGE}BoundedIOCompactionStrategy": Strategy(take_while_io),
    f"{_PACKAGE}UnBoundedCompactionStrategy": Strategy(take_all),
    f"{_PACKAGE}DayBasedCompactionStrategy": Strategy(_by_day, newest_days),
    f"{_PACKAGE}BoundedPartitionAwareCompactionStrategy": Strategy(_by_day, recent_days),
    f"{_PACKAGE}UnBoundedPartitionAwareCompactionStrategy": Strategy(_by_day, earlier_days),
}

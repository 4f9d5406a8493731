"""Strategies of compaction: which file groups each one plans, and in which order."""

from __future__ import annotations

from datetime import date

import pytest

from penstock.errors import OptionError
from penstock.options import read_options
from penstock.services.compaction.strategies import STRATEGIES, CompactionLimits, day_of, strategy_of
from penstock.services.plan_metrics import IO_MB, LOG_BYTES, LOG_FILES
from penstock.timeline.compaction_plan import CompactionOperation

PACKAGE = "org.apache.hudi.table.action.compact.strategy."
STRATEGY = "hoodie.compaction.strategy"
TODAY = date(2026, 3, 10)
LIMITS = CompactionLimits(io_mb=100, log_bytes=0, log_files=0, day_partitions=2, today=TODAY)


def operation(file_id: str, path: str = "", *, size: int = 1, files: int = 1, io: int = 1) -> CompactionOperation:
    metrics = {LOG_BYTES: float(size), LOG_FILES: float(files), IO_MB: float(io)}
    return CompactionOperation(path, file_id, "1", None, (), metrics)


def choose(name: str, operations: list[CompactionOperation], limits: CompactionLimits = LIMITS) -> list[str]:
    return [one.file_id for one in STRATEGIES[PACKAGE + name].choose(operations, limits)]


def filter_paths(name: str, paths: list[str], limits: CompactionLimits = LIMITS) -> list[str]:
    return STRATEGIES[PACKAGE + name].choose_partitions(paths, limits)


def test_the_default_takes_the_largest_logs_first() -> None:
    strategy, limits = strategy_of(read_options({}))
    found = strategy.choose([operation("a", size=1), operation("b", size=3), operation("c", size=2)], limits)
    assert [one.file_id for one in found] == ["b", "c", "a"]


def test_logs_below_the_threshold_are_left() -> None:
    limits = CompactionLimits(100, log_bytes=2, log_files=3, day_partitions=1, today=TODAY)
    operations = [operation("a", size=1, files=9), operation("b", size=2, files=2), operation("c", size=3, files=3)]
    assert choose("LogFileSizeBasedCompactionStrategy", operations, limits) == ["c", "b"]
    assert choose("LogFileNumBasedCompactionStrategy", operations, limits) == ["a", "c"]


@pytest.mark.parametrize(("target", "expected"), [(0, "a"), (10, "a"), (11, "ab"), (20, "ab"), (21, "abc"), (999, "abc")])
def test_the_operation_that_exceeds_the_target_is_the_last_one_planned(target: int, expected: str) -> None:
    limits = CompactionLimits(target, 0, 0, 1, TODAY)
    operations = [operation(name, io=10) for name in "abc"]
    assert choose("BoundedIOCompactionStrategy", operations, limits) == list(expected)
    assert choose("LogFileSizeBasedCompactionStrategy", operations, limits) == list(expected)
    assert choose("UnBoundedCompactionStrategy", operations, limits) == ["a", "b", "c"]


PATHS = ["2026/03/07", "2026/03/12", "2026/03/08", "2025/12/31", "2026/03/10"]


def test_days_are_taken_from_the_newest_back() -> None:
    assert filter_paths("DayBasedCompactionStrategy", PATHS) == ["2026/03/12", "2026/03/10"]


def test_the_last_days_and_those_before_share_all_partitions() -> None:
    recent = filter_paths("BoundedPartitionAwareCompactionStrategy", PATHS)
    earlier = filter_paths("UnBoundedPartitionAwareCompactionStrategy", PATHS)
    assert recent == ["2026/03/12", "2026/03/10", "2026/03/08"]
    assert earlier == ["2026/03/07", "2025/12/31"]


@pytest.mark.parametrize("path", ["2026/03/08", "year=2026/month=03/day=08", "dt=2026-03-08", "2026/3/8", "dt=2026/03/08"])
def test_a_day_is_read_from_the_usual_spellings(path: str) -> None:
    assert day_of(path) == date(2026, 3, 8)


@pytest.mark.parametrize("path", ["", "berlin", "2026/13/01", "2026/03"])
def test_a_partition_that_is_no_day_is_refused_by_strategies_that_go_by_days(path: str) -> None:
    with pytest.raises(OptionError, match="Invalid Partition Date Format"):
        filter_paths("DayBasedCompactionStrategy", [path])


def test_operations_of_the_newest_day_come_first() -> None:
    operations = [operation("a", "2026/03/08"), operation("b", "2026/03/10")]
    assert choose("DayBasedCompactionStrategy", operations) == ["b", "a"]


def test_other_strategies_consider_all_partitions() -> None:
    assert filter_paths("LogFileSizeBasedCompactionStrategy", ["x", "y"]) == ["x", "y"]


def test_the_package_of_a_strategy_may_be_left_out() -> None:
    named, _ = strategy_of(read_options({STRATEGY: "UnBoundedCompactionStrategy"}))
    assert named is STRATEGIES[f"{PACKAGE}UnBoundedCompactionStrategy"]


def test_an_unknown_strategy_is_refused_with_its_name() -> None:
    with pytest.raises(OptionError, match=r"hoodie\.compaction\.strategy='com\.example\.Mine' is not known"):
        strategy_of(read_options({STRATEGY: "com.example.Mine"}))

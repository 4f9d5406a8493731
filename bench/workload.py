"""The workload: the tables, the steps in order, and the methods of an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bench.data import GROUPS, ONE_CITY, Checksum, Truth
from bench.meter import Meter, growth_of, sizes_below


@dataclass(frozen=True)
class TableSpec:
    """A table of the workload."""

    #: The section of the input that its batches are in.
    section: str
    merge_on_read: bool = False
    #: All rows are in one partition of this many file groups; 0: a partition per city, sizes as the engine likes.
    groups: int = 0
    #: Keys grow with time, and file groups are in their order.
    ordered: bool = False
    #: Buckets of each partition, for the bucket index; 0: none.
    buckets: int = 0
    #: Its partitions are too many for a checksum by city: writes are checked by the count of rows.
    checked_by_count: bool = False


TABLES = {
    "cow": TableSpec("core"),
    "mor": TableSpec("core", merge_on_read=True),
    "groups": TableSpec("groups", groups=GROUPS),
    "ordered": TableSpec("ordered", groups=GROUPS, ordered=True),
    "bucket": TableSpec("core", buckets=4),
    "wide": TableSpec("wide"),
    "nested": TableSpec("nested"),
    "many": TableSpec("many", checked_by_count=True),
    "columns": TableSpec("columns", merge_on_read=True),
    "partitions": TableSpec("partitions", checked_by_count=True),
}


@dataclass(frozen=True)
class Step:
    """One measured thing. A read returns its answer; after a write the table is read back, untimed."""

    id: str
    title: str
    table: str
    writes: bool
    run: Callable[[Engine, str], Any]
    #: Where the right answer is in the truth; for a write also the batch's folder.
    truth: str
    #: Seconds over the limit's that we want to reach.
    goal: float | None = None


def _write(id: str, title: str, table: str, method: str, batch: str, *, goal: float | None = None, **more: Any) -> Step:
    def run(engine: Engine, data: str) -> None:
        getattr(engine, method)(table, f"{data}/{batch}", **more)

    return Step(id, title, table, True, run, batch, goal)


def _read(id: str, title: str, table: str, method: str, truth: str, *arguments: Any, goal: float | None = None) -> Step:
    return Step(id, title, table, False, lambda engine, data: getattr(engine, method)(table, *arguments), truth, goal)


def _reads(*arguments: Any, **more: Any) -> list[Step]:
    """Return a query that runs three times: the median counts, as for small upserts."""
    return [_read(*arguments, **more) for _ in range(3)]


def _reads_with_plain(id: str, title: str, table: str, method: str, truth: str, *arguments: Any, goal: float) -> list[Step]:
    """Return a query that runs three times, each followed by a read of the same files by Spark's own Parquet reader."""
    one = _read(id, title, table, method, truth, *arguments, goal=goal)
    plain = _read(f"{id}p", "the same files, Spark's own Parquet reader", table, f"plain_{method}", truth, *arguments)
    return [one, plain] * 3


_ONE_CITY = {"index": "SIMPLE", "cities": [ONE_CITY]}

STEPS = [
    _write("W1", "bulk_insert, all rows", "cow", "bulk_insert", "base", goal=3.0),
    _write("W2", "COW upsert, 10 % updates + 1 % inserts, all files, BLOOM", "cow", "upsert", "up1", goal=1.3, index="BLOOM"),
    _write("W3", "COW upsert, the same size again, SIMPLE", "cow", "upsert", "up2", goal=1.3, index="SIMPLE"),
    *_reads("W12", "incremental read of that commit", "cow", "incremental", "up2.batch", goal=2.0),
    _write("W4", "COW upsert, 1 % of rows, one partition", "cow", "upsert", "city", goal=1.8, **_ONE_CITY),
    *(
        _write("W5", "COW upsert, 1,000 rows, one partition", "cow", "upsert", f"tiny{i}", goal=1.5, **_ONE_CITY)
        for i in (1, 2, 3)
    ),
    *_reads_with_plain("W11a", "COW snapshot, full aggregation", "cow", "checksum", "tiny3", goal=3.4),
    *_reads("W11b", "COW snapshot, selective count", "cow", "count", "selective", "rider = 'rider-777'"),
    _write("W13", "COW delete, 1 % of rows, all files", "cow", "delete", "delete", goal=1.3),
    _write("W14", "COW upsert of 1 row + clustering, sorted by rider", "cow", "cluster", "one_cow", goal=1.8),
    *_reads("W14b", "the selective count again, after clustering", "cow", "count", "selective.clustered", "rider = 'rider-777'"),
    _write("load17", "bulk_insert into one partition of 40 file groups (sets the stage)", "groups", "bulk_insert", "groups"),
    _write("W17", "COW upsert, 10 % + 1 %, one partition of 40 file groups, BLOOM", "groups", "upsert", "groups_up", goal=2.0,
           index="BLOOM", cities=[ONE_CITY]),
    _write("load18", "bulk_insert of time-ordered keys, 40 file groups (sets the stage)", "ordered", "bulk_insert", "ordered"),
    _write("W18", "COW upsert, time-ordered keys, the newest tenth of 40 file groups, BLOOM", "ordered", "upsert", "ordered_up",
           index="BLOOM", cities=[ONE_CITY]),
    _write("load21", "bulk_insert into 4 buckets a partition (sets the stage)", "bucket", "bulk_insert", "base"),
    _write("W21", "COW upsert, 10 % updates + 1 % inserts, all files, BUCKET", "bucket", "upsert", "up1", goal=2.0,
           index="BUCKET"),
    _write("W19a", "bulk_insert, 200 columns", "wide", "bulk_insert", "wide"),
    _write("W19b", "COW upsert, 10 % + 1 %, 200 columns, SIMPLE", "wide", "upsert", "wide_up", index="SIMPLE"),
    _write("W20a", "bulk_insert, nested columns", "nested", "bulk_insert", "nested"),
    _write("W20b", "COW upsert, 10 % + 1 %, nested columns, SIMPLE", "nested", "upsert", "nested_up", index="SIMPLE"),
    _write("load", "bulk_insert into MOR (sets the stage)", "mor", "bulk_insert", "base"),
    _write("W6", "MOR upsert, 10 % updates", "mor", "upsert", "mor1", goal=3.0, index="SIMPLE"),
    _write("W7", "MOR second upsert, 10 % updates", "mor", "upsert", "mor2", goal=3.0, index="SIMPLE"),
    *_reads("W8", "MOR snapshot over logs, full aggregation", "mor", "checksum", "mor2", goal=2.2),
    *_reads("W9", "MOR read-optimized, full aggregation", "mor", "read_optimized", "base"),
    _write("W10", "MOR upsert of 1 row + compaction of everything", "mor", "compact", "one_mor", goal=1.4),
    *(
        _write("W16", "MOR upsert, 1,000 rows, all files", "mor", "upsert", f"mor_tiny{i}", goal=4.0, index="SIMPLE")
        for i in (1, 2, 3)
    ),
    _write("W15a", "bulk_insert, many partitions of 100 rows", "many", "bulk_insert", "many", goal=6.0),
    *_reads_with_plain("W15b", "snapshot count over all of them", "many", "count", "many", "seq >= 0", goal=5.0),
    *_reads("W15c", "snapshot count of one of them", "many", "count", "many.one", "city = 'p00007'"),
    _write("W22a", "bulk_insert into MOR, 1,000 columns x 3,000 rows", "columns", "bulk_insert", "columns", goal=3.0),
    _write("W22b", "MOR upsert, 300 rows of 1,000 columns", "columns", "upsert", "columns_up", goal=3.0, index="SIMPLE"),
    _write("W22c", "MOR upsert of 1 row + compaction of everything, 1,000 columns", "columns", "compact", "columns_one",
           goal=3.0),
    _write("W23a", "COW upsert, 100,000 rows of 5,000 partitions, into an empty table", "partitions", "upsert", "partitions",
           goal=3.0),
    *(
        _write("W23b", "COW upsert, 1 row, 5,000 partitions", "partitions", "upsert", f"partitions_one{i}", goal=3.0)
        for i in (1, 2, 3)
    ),
    *_reads("W23c", "snapshot count over 5,000 partitions", "partitions", "count", "partitions", "seq >= 0", goal=3.0),
    *_reads("W23d", "snapshot count of one of them", "partitions", "count", "partitions.one", "city = 'p00007'", goal=3.0),
]  # fmt: skip
IDS = list(dict.fromkeys(s.id for s in STEPS))
TITLES = {s.id: s.title for s in STEPS}
GOALS = {s.id: s.goal for s in STEPS if s.goal}


def sections_of(steps: Collection[str]) -> list[str]:
    """Return the input that these steps need."""
    return list(dict.fromkeys(TABLES[s.table].section for s in STEPS if s.id in steps))


class Engine:
    """The methods of an engine. A missing method is a workload without an equivalent. `src` is a folder of Parquet files."""

    def __init__(self, name: str, root: str, codec: str) -> None:
        self.name, self.root, self.codec = name, root, codec
        self.run = ""  # the repetition; each has its own tables
        self.data = ""  # the folder of its input

    def path(self, table: str) -> str:
        """Return the path of a table."""
        return f"{self.root}/{self.run}/{table}"

    def before(self, step: str, table: str) -> None:
        """Prepare a step, untimed."""

    def close(self) -> None:
        """End the processes that the engine started."""

    def bulk_insert(self, table: str, src: str) -> None:
        """Create the table with these rows."""
        raise NotImplementedError

    def upsert(self, table: str, src: str, index: str = "SIMPLE", cities: list[str] | None = None) -> None:
        """Insert new keys, replace known ones. All rows are of `cities`, if set. The table may not exist yet."""
        raise NotImplementedError

    def delete(self, table: str, src: str) -> None:
        """Remove rows by key."""
        raise NotImplementedError

    def cluster(self, table: str, src: str) -> None:
        """Upsert, then rewrite everything sorted by rider."""
        raise NotImplementedError

    def compact(self, table: str, src: str) -> None:
        """Upsert, then rewrite everything without logs."""
        raise NotImplementedError

    def checksum(self, table: str) -> Checksum:
        """Return the checksum of the table's rows."""
        raise NotImplementedError

    def count(self, table: str, condition: str) -> int:
        """Return how many rows meet a condition."""
        raise NotImplementedError

    def read_optimized(self, table: str) -> Checksum:
        """Return the checksum of the rows in base files."""
        raise NotImplementedError

    def incremental(self, table: str) -> Checksum:
        """Return the checksum of the rows of the last commit."""
        raise NotImplementedError

    def plain_checksum(self, table: str) -> Checksum:
        """Return the checksum of the table's rows, read by Spark's own Parquet reader."""
        raise NotImplementedError

    def plain_count(self, table: str, condition: str) -> int:
        """Return how many rows meet a condition, read by Spark's own Parquet reader."""
        raise NotImplementedError


def run(
    engine: Engine, data: str, truth: Truth, steps: Collection[str], meter: Meter, emit: Callable[[dict[str, Any]], None]
) -> None:
    """All steps on new tables; `emit` gets one record per step. A write that is not done ends its table."""
    ended: dict[str, str] = {}
    engine.data = data
    for step in STEPS:
        if step.id not in steps:
            continue
        record: dict[str, Any] = {"step": step.id, "table": step.table, "status": ended.get(step.table)}
        try:
            if not record["status"]:
                record.update(_measure(engine, step, data, truth, meter))
        except Exception as e:  # the other tables still count
            record["status"] = "-" if _is_missing(e) else "ERROR"
            record["detail"] = f"{type(e).__name__}: {e}"[:1500]
        if step.writes and record["status"] in ("-", "ERROR"):
            ended[step.table] = record["status"]
        emit(record)


def _measure(engine: Engine, step: Step, data: str, truth: Truth, meter: Meter) -> dict[str, Any]:
    engine.before(step.id, step.table)
    before = sizes_below(engine.path(step.table)) if step.writes else {}
    answer, measured = meter.measure(lambda: step.run(engine, data))
    if step.writes:
        measured.update(_written(before, sizes_below(engine.path(step.table)), f"{data}/{step.truth}"))
        by_count = TABLES[step.table].checked_by_count
        answer = engine.count(step.table, "seq >= 0") if by_count else engine.checksum(step.table)
    if answer != truth[step.truth]:
        detail = f"got {str(answer)[:400]} want {str(truth[step.truth])[:400]}"
        return {**measured, "status": "WRONG", "detail": detail}
    return {**measured, "status": "ok"}


def _written(before: Mapping[str, int], after: Mapping[str, int], batch: str) -> dict[str, float]:
    """Return the size of the table, what the step added to it, and the ratio of that to the size of its batch."""
    added, incoming = growth_of(before, after), sum(sizes_below(batch).values())
    return {
        "disk_mb": round(sum(after.values()) / 2**20, 1),
        "added_mb": round(added / 2**20, 2),
        "amplification": round(added / max(1, incoming), 2),
        "files": len(after.keys() - before.keys()),
    }


def _is_missing(error: Exception) -> bool:
    """Return whether an error says that the engine does not support this (yet)."""
    kinds = {(kind.__module__, kind.__name__) for kind in type(error).__mro__}
    return isinstance(error, NotImplementedError) or ("penstock.errors", "Unsupported") in kinds


def file_cap(table: str, src: str) -> int | None:
    """Return the file size that results in the table's number of file groups; None where that is left to the engine.

    Twice the input's share: a stored row takes about half as much again as an incoming one, and a file shall not roll early.
    """
    groups = TABLES[table].groups
    return 2 * sum(sizes_below(src).values()) // groups if groups else None


def rows_below(folder: str) -> list[str]:
    """Return the Parquet files of a folder, sorted."""
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".parquet"))

"""Measures what several writers cost: the check of a commit, the time for which the lock is held, and a retry after a conflict.

    python -m bench.writers --rounds 15 --files 10,100,1000 --out bench/out/writers

*cost*: small upserts, by a single writer and by one that expects others, with the lock of the process. Rounds are interleaved,
so that a slow minute of the machine affects both. *large*: the same for upserts of ten partitions, as a share. *disjoint*: eight
writers, each with a partition of its own, one after the other and all at once. *held*: how long the lock is held by upserts that
change more and more files. *protocol*: the same without Spark and without rows, from the beginning of a change to its commit.
*retry*: an upsert of ten partitions without a conflict, and one that loses to another commit in one of them; the time of that
other commit does not count. A first upsert, which warms Spark up, does not count. `--page` writes the figures to a page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import penstock
from penstock.commit.begin import begin
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.storage import open_storage
from penstock.table.config import write_config
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import Action

GOAL_COST_MS = 30.0
GOAL_HELD_MS = 50.0
GOAL_RETRY = 0.3
GOAL_LARGE = 0.02
GOAL_DISJOINT = 0.9
PARTITIONS = 10
WRITERS = 8
VALIDATOR = "bench_writers"
#: The lines that were printed.
_SAID: list[str] = []
HOODIE = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.services.enabled": "false",
    "penstock.progress": "off",
}
SEVERAL = {
    **HOODIE,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "in_process",
    "hoodie.write.num.retries.on.conflict.failures": "3",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. Return 1 if a figure misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="upserts that each median is taken of")
    parser.add_argument("--files", default="10,100,1000", help="files of the upserts whose locks are measured")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the tables of the retry and of the large upserts")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only-protocol", action="store_true", help="leave out what needs Spark")
    parser.add_argument("--page", type=Path, help="also write the figures to this page")
    parser.add_argument("--out", type=Path, default=Path("bench/out/writers"))
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    numbers = [int(files) for files in asked.files.split(",")]
    protocol = [measure_protocol(asked.out, files, asked.rounds) for files in numbers]
    if asked.only_protocol:
        return 0
    spark = penstock.session(master=f"local[{asked.cores}]")
    few = max(3, asked.rounds // 3)
    found: dict[str, Any] = {
        "protocol": protocol,
        "cost": measure_cost(spark, asked.out, asked.rounds),
        "large": measure_large(spark, asked.out, asked.rows, few),
        "held": [measure_held(spark, asked.out, files, few) for files in numbers],
        "disjoint": measure_disjoint(spark, asked.out, asked.rows // PARTITIONS, few),
        "retry": measure_retry(spark, asked.out, asked.rows, few),
    }
    spark.stop()
    (asked.out / "writers.json").write_text(json.dumps(found, indent=2) + "\n")
    if asked.page is not None:
        asked.page.write_text(make_page(asked))
    return int(misses_a_goal(found))


def misses_a_goal(found: dict[str, Any]) -> bool:
    """Whether a figure misses its goal."""
    return (
        found["cost"]["cost_ms"] > GOAL_COST_MS
        or found["large"]["share"] > GOAL_LARGE
        or any(held["held_ms"] > GOAL_HELD_MS for held in found["held"])
        or found["disjoint"]["throughput"] < GOAL_DISJOINT
        or found["retry"]["times_first_attempt"] > GOAL_RETRY
    )


def make_page(asked: argparse.Namespace) -> str:
    """Return a page with all figures that were printed, and on which machine."""
    lines = "\n".join(f"- {line}" for line in _SAID)
    machine = f"{platform.machine()} with {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"""# What several writers cost

Printed by `python -m bench.writers --page` on {machine}, Spark on {asked.cores} cores,
{asked.rounds} rounds.

{lines}

`bench/writers.py` says how each figure is measured.
"""


def make_table(spark: Any, path: Path, rows: int, partitions: int, options: dict[str, str]) -> Any:
    """Make a table with one file in each partition."""
    shutil.rmtree(path, ignore_errors=True)
    bulk = {**options, "hoodie.datasource.write.operation": "bulk_insert", "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    trips(spark, rows, partitions).coalesce(1).write.format("hudi").options(**bulk).mode("append").save(str(path))
    return penstock.Table.open(str(path), spark)


def trips(spark: Any, rows: int, partitions: int, ts: int = 1) -> Any:
    """Return trips: each key has its partition."""
    return spark.range(rows).selectExpr(
        "cast(id as string) as id",
        f"concat('city-', lpad(id % {partitions}, 5, '0')) as city",
        f"{ts}L as ts",
        "id * 0.5 as fare",
    )


def measure_protocol(folder: Path, files: int, rounds: int) -> dict[str, float]:
    """Return how long a change of that many files takes from its beginning to its commit, and how long it holds the lock."""
    schema = '{"type": "record", "name": "trips", "fields": []}'
    stats = [
        WriteStat(
            f"g{number}", f"city-{number:05}", f"city-{number:05}/g{number}_0-0-0_1.parquet", prev_commit="1", num_writes=10
        )
        for number in range(files)
    ]
    tables = {}
    for name, options in {"single": HOODIE, "several": SEVERAL}.items():
        path = folder / f"protocol-{name}"
        shutil.rmtree(path, ignore_errors=True)
        storage, base_path = open_storage(str(path), {})
        config = write_config(storage, base_path, {"hoodie.table.name": "trips"}, new=True)
        tables[name] = TableState(storage, base_path, config, read_options(options))
    times: dict[str, list[float]] = {name: [] for name in tables}
    held: list[float] = []
    for number in range(-1, rounds):
        for name, table in tables.items():
            began = time.perf_counter()
            with begin(reload_timeline(table), Action.COMMIT) as change:
                change.plan_on(reload_timeline(table).timeline)
                change.start()
                commit = change.complete(stats, operation=Operation.UPSERT, schema=schema)
            if number >= 0:
                times[name].append((time.perf_counter() - began) * 1000)
                held += [commit.lock.held_s * 1000] if commit.lock is not None else []
    single, several = statistics.median(times["single"]), statistics.median(times["several"])
    found = {
        "files": files,
        "single_ms": single,
        "several_ms": several,
        "held_ms": statistics.median(held),
        "least_held_ms": min(held),
    }
    _say(
        f"protocol of a commit of {files} files: {single:.0f} ms single, {several:.0f} ms several; the lock is held "
        f"{found['held_ms']:.1f} ms, at least {found['least_held_ms']:.1f} ms"
    )
    return found


def measure_cost(spark: Any, folder: Path, rounds: int) -> dict[str, float]:
    """Return the median times of a small upsert by a single writer, and by one of several, in milliseconds."""
    tables = {
        "single": (make_table(spark, folder / "single", 1000, 1, HOODIE), HOODIE),
        "several": (make_table(spark, folder / "several", 1000, 1, SEVERAL), SEVERAL),
    }
    times: dict[str, list[float]] = {name: [] for name in tables}
    for number in range(-1, rounds):
        for name, (table, options) in tables.items():
            rows = trips(spark, 100, 1, number + 3)
            taken = _time(lambda table=table, rows=rows, options=options: table.upsert(rows, options))
            if number >= 0:
                times[name].append(taken * 1000)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    differences = [several - single for single, several in zip(times["single"], times["several"], strict=True)]
    cost = statistics.median(differences)
    _say(
        f"cost of a small upsert: {medians['single']:.0f} ms single, {medians['several']:.0f} ms several, median difference "
        f"{cost:.0f} ms (goal {GOAL_COST_MS:.0f})"
    )
    return {"single_ms": medians["single"], "several_ms": medians["several"], "cost_ms": cost}


def measure_large(spark: Any, folder: Path, rows: int, rounds: int) -> dict[str, float]:
    """Return the median times of an upsert of a tenth of a table by a single writer, and by one of several, in seconds."""
    tables = {}
    for name, options in {"single": HOODIE, "several": SEVERAL}.items():
        tables[name] = (make_table(spark, folder / f"large-{name}", rows, PARTITIONS, options), options)
    times: dict[str, list[float]] = {name: [] for name in tables}
    for number in range(-1, rounds):
        for name, (table, options) in tables.items():
            incoming = trips(spark, rows // 10, PARTITIONS, number + 3)
            taken = _time(lambda table=table, incoming=incoming, options=options: table.upsert(incoming, options))
            if number >= 0:
                times[name].append(taken)
    differences = [theirs - ours for ours, theirs in zip(times["single"], times["several"], strict=True)]
    single = statistics.median(times["single"])
    share = statistics.median(differences) / single
    several = statistics.median(times["several"])
    _say(
        f"cost of an upsert of {rows // 10} rows: {single:.2f} s single, {several:.2f} s several, median "
        f"difference {share:.1%} (goal {GOAL_LARGE:.0%})"
    )
    return {"single_s": single, "several_s": several, "share": share}


def measure_disjoint(spark: Any, folder: Path, rows: int, rounds: int) -> dict[str, float]:
    """Return how much eight writers of one partition each get done at once, compared with one after the other."""
    table = make_table(spark, folder / "disjoint", rows * WRITERS, WRITERS, SEVERAL)
    path = str(folder / "disjoint")
    after_each_other: list[float] = []
    at_once: list[float] = []
    for number in range(-1, rounds):
        frames = [
            trips(spark, rows * WRITERS, WRITERS, number + 3).where(f"city = 'city-{writer:05}'") for writer in range(WRITERS)
        ]
        writers = [penstock.Table.open(path, spark) for _ in frames]
        serial = _time(partial(_upsert_one_by_one, table, frames))
        concurrent = _time(partial(_upsert_at_once, writers, frames))
        if number >= 0:
            after_each_other.append(serial)
            at_once.append(concurrent)
    throughput = statistics.median(after_each_other) / statistics.median(at_once)
    _say(
        f"{WRITERS} writers of one partition each: {statistics.median(after_each_other):.2f} s one after the other, "
        f"{statistics.median(at_once):.2f} s at once, {throughput:.2f} of the throughput (goal {GOAL_DISJOINT})"
    )
    return {
        "serial_s": statistics.median(after_each_other),
        "concurrent_s": statistics.median(at_once),
        "throughput": throughput,
    }


def _upsert_one_by_one(table: Any, frames: Sequence[Any]) -> None:
    for frame in frames:
        table.upsert(frame, SEVERAL)


def _upsert_at_once(writers: Sequence[Any], frames: Sequence[Any]) -> None:
    with ThreadPoolExecutor(len(writers)) as pool:
        done = [pool.submit(writer.upsert, frame, SEVERAL) for writer, frame in zip(writers, frames, strict=True)]
        for upsert in done:
            upsert.result()


def measure_held(spark: Any, folder: Path, files: int, rounds: int) -> dict[str, float]:
    """Return for how many milliseconds an upsert of that many files holds the lock: the median."""
    table = make_table(spark, folder / "held", files * 10, files, SEVERAL)
    held = []
    seconds = []
    for number in range(rounds):
        commit = table.upsert(trips(spark, files * 10, files, number + 2), SEVERAL)
        held.append(commit.lock_held_seconds * 1000)
        seconds.append(commit.seconds)
    found = {"files": files, "held_ms": statistics.median(held), "seconds": statistics.median(seconds)}
    _say(
        f"lock held by an upsert of {files} files: {found['held_ms']:.1f} ms of {found['seconds']:.2f} s "
        f"(goal {GOAL_HELD_MS:.0f})"
    )
    return found


def measure_retry(spark: Any, folder: Path, rows: int, rounds: int) -> dict[str, float]:
    """Return how long a retry takes after a conflict in one of ten partitions, compared with the first attempt."""
    table = make_table(spark, folder / "retry", rows, PARTITIONS, SEVERAL)
    others: list[float] = []
    actions: list[Callable[[], object]] = []

    @penstock.validator(VALIDATOR)
    def commit_in_between(preview: Any) -> None:
        while actions:
            others.append(_time(actions.pop()))

    options = {**SEVERAL, "hoodie.precommit.validators": VALIDATOR}
    first: list[float] = []
    again: list[float] = []
    for number in range(-1, rounds):
        incoming = trips(spark, rows // 2, PARTITIONS, number + 3)
        one = trips(spark, PARTITIONS, PARTITIONS, number + 3).where("city = 'city-00000'")
        undisturbed = _time(lambda incoming=incoming: table.upsert(incoming, options))
        actions.append(lambda one=one: table.upsert(one, SEVERAL))
        disturbed = _time(lambda incoming=incoming: table.upsert(incoming, options)) - others[-1]
        if number >= 0:
            first.append(undisturbed)
            again.append(disturbed - undisturbed)
    ratio = statistics.median(again) / statistics.median(first)
    _say(
        f"retry after a conflict in 1 of {PARTITIONS} partitions: {statistics.median(again):.2f} s, {ratio:.2f} of the first "
        f"attempt's {statistics.median(first):.2f} s (goal {GOAL_RETRY})"
    )
    return {"first_s": statistics.median(first), "retry_s": statistics.median(again), "times_first_attempt": ratio}


def _time(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _say(line: str) -> None:
    _SAID.append(line)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

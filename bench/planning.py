"""Measures the time of planning: a query of one partition out of many, and table services on many file groups.

    python -m bench.planning [--partitions 1000] [--commits 10]
    python -m bench.planning services [--groups 10000] [--partitions 100]

The first makes a table with a file of each commit in every partition, then times `read` and Spark's plan of it, three ways, in
turns. The second makes empty files and needs no Spark: two versions of each file group, with a log on top.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name, log_file_name, partition_metafile
from penstock.options import read_options
from penstock.services.archive.run import choose_instants
from penstock.services.clean.schedule import schedule_clean
from penstock.services.clustering.service import CLUSTERING
from penstock.services.compaction.service import COMPACTION
from penstock.services.health import check_health
from penstock.services.planned import schedule
from penstock.services.savepoint import create_savepoint, delete_savepoint
from penstock.services.ttl import expired_partitions
from penstock.storage import LocalStorage
from penstock.table.config import write_config
from penstock.table.state import TableState, open_table
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.instant import Instant
from penstock.timeline.store import instant_path

#: Commits after those that write all file groups: as many as cleaning keeps, and enough for archiving to begin.
_MORE_COMMITS = 32
_SCHEMA = '{"type": "record", "name": "t", "fields": [{"name": "id", "type": "string"}]}'


def main() -> None:
    """Print the medians."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", nargs="?", choices=["queries", "services"], default="queries")
    p.add_argument("--partitions", type=int)
    p.add_argument("--commits", type=int, default=10)
    p.add_argument("--groups", type=int, default=10_000)
    p.add_argument("--repeat", type=int, default=7)
    args = p.parse_args()
    folder = tempfile.mkdtemp(prefix="penstock-planning-")
    try:
        if args.what == "services":
            report_services(Path(folder, "t"), args.groups, args.partitions or 100, args.repeat)
        else:
            report_queries(f"{folder}/t", args.partitions or 1_000, args.commits, args.repeat)
    finally:
        shutil.rmtree(folder)


def report_queries(path: str, partitions: int, commits: int, repeat: int) -> None:
    """Time the queries in a session of their own."""
    spark = penstock.session(**{"spark.ui.enabled": "false", "spark.driver.memory": "4g"})
    try:
        report(spark, path, partitions, commits, repeat)
    finally:
        spark.stop()


def report(spark: Any, path: str, partitions: int, commits: int, repeat: int) -> None:
    """Make the table and time the three queries."""
    table = penstock.Table.create(
        path, "id string, part string, n int", name="t", record_key="id", partition_by="part", spark=spark
    )
    for commit in range(commits):
        rows = spark.range(partitions).selectExpr(f"concat(id, '-{commit}') AS id", "concat('p', id) AS part", f"{commit} AS n")
        table.bulk_insert(rows)
    queries: dict[str, Callable[[], Any]] = {
        "the whole table": lambda: table.read(),
        "one partition, asked for": lambda: table.read(partitions=["p7"]),
        "one partition, by where() after load": lambda: table.read().where("part = 'p7'"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(repeat):
        for name, query in queries.items():
            begin = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                query().explain()
            seconds[name].append(time.perf_counter() - begin)
    print(f"{partitions:,} partitions, {partitions * commits:,} files, medians of {repeat}\n")
    print("| query | seconds | of the whole |\n|---|---:|---:|")
    whole = statistics.median(seconds["the whole table"])
    for name, found in seconds.items():
        median = statistics.median(found)
        print(f"| {name} | {median:.3f} | {median / whole:.3f} |")


def report_services(path: Path, groups: int, partitions: int, repeat: int) -> None:
    """Make the table and time the plan of each service; what a plan left on the timeline is removed again."""
    plans = service_plans(str(make_table(path, groups, partitions)))
    print(f"{groups:,} file groups in {partitions:,} partitions, medians of {repeat}\n\n| service | seconds |\n|---|---:|")
    for name, plan in plans.items():
        seconds = []
        for _ in range(repeat):
            begin = time.perf_counter()
            result = plan()
            seconds.append(time.perf_counter() - begin)
            forget(str(path), result)
        print(f"| {name} | {statistics.median(seconds):.3f} |")


def service_plans(path: str) -> dict[str, Callable[[], Any]]:
    """How each service is planned: the table is opened, listed, and the plan put on the timeline."""

    def opened(**options: object) -> TableState:
        return open_table(path, read_options({key.replace("_", "."): value for key, value in options.items()}))

    return {
        "clean": lambda: schedule_clean(opened(), due=True),
        "compaction": lambda: schedule(opened(), COMPACTION, due=True),
        "clustering": lambda: schedule(opened(), CLUSTERING, due=True),
        "archive": lambda: choose_instants(opened()),
        "partitions whose time is over": lambda: expired_partitions(opened(hoodie_partition_ttl_strategy_days_retain=1)),
        "savepoint": lambda: create_savepoint(opened()),
        "health": lambda: check_health(opened()),
    }


def forget(path: str, result: Any) -> None:
    """Take what a plan left off the timeline."""
    table = open_table(path)
    if isinstance(result, Instant):
        table.storage.delete(instant_path(path, result))
    elif result.__class__.__name__ == "Savepoint":
        delete_savepoint(table, result.instant)


def make_table(path: Path, groups: int, partitions: int) -> Path:
    """A merge-on-read table of empty files, whose commits say all that a service asks for."""
    config = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "p",
    }
    write_config(LocalStorage(), str(path), config, new=True)
    names = [(f"p{number % partitions:05}", f"f{number:06}-0") for number in range(groups)]
    for partition in dict.fromkeys(name for name, _ in names):
        (path / partition).mkdir()
        (path / partition / PARTITION_METAFILE).write_bytes(partition_metafile(_at(0), partition, "now"))
    before = "null"
    for number in range(2 + _MORE_COMMITS):
        instant, written = _at(number), names if number < 2 else names[:1]
        stats = []
        for partition, file_id in written:
            file = base_file_name(file_id, "0-0-0", instant)
            _touch(path / partition / file)
            stats.append(WriteStat(file_id, partition, f"{partition}/{file}", prev_commit=before, num_writes=1))
            if number:
                _touch(path / partition / log_file_name(file_id, instant, 1, "0-0-0"))
        content = write_commit(CommitMetadata(tuple(stats), operation="UPSERT", extra={"schema": _SCHEMA}))
        for end, data in ((".requested", b""), (".inflight", b""), ("", content)):
            (path / ".hoodie" / f"{instant}.deltacommit{end}").write_bytes(data)
        before = instant
    return path


def _at(number: int) -> str:
    return f"2024010100{number:02}00000"


def _touch(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


if __name__ == "__main__":
    main()

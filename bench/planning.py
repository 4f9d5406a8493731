"""How long it takes to plan a query of one partition out of many: `python -m bench.planning [--partitions 1000] [--commits 10]`.

Makes a table of so many partitions with a file of each commit in every one, then times `read` and Spark's plan of it,
three ways, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import penstock


def main() -> None:
    """Print the medians."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--partitions", type=int, default=1_000)
    p.add_argument("--commits", type=int, default=10)
    p.add_argument("--repeat", type=int, default=7)
    args = p.parse_args()
    folder = tempfile.mkdtemp(prefix="penstock-planning-")
    spark = penstock.session(**{"spark.ui.enabled": "false", "spark.driver.memory": "4g"})
    try:
        report(spark, f"{folder}/t", args.partitions, args.commits, args.repeat)
    finally:
        spark.stop()
        shutil.rmtree(folder)


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


if __name__ == "__main__":
    main()

"""Measures data skipping by clustering: the files and rows that are read for a range of values, before and after.

    python -m bench.skipping [--rows 2000000] [--files 32]

A table whose rows are in random order is queried for a hundredth of the values of one column, and of another; then clustered by
both, in each layout, and queried again. Spark's reader uses the statistics in the footers: of a file that cannot hold such
a value it reads the footer alone. The rows that it reads come from its own metrics, the files from their statistics.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq

import penstock
from penstock.table.listing import list_base_slices
from penstock.table.state import open_table

COLUMNS = ("ts", "fare")
LAYOUTS = ("linear", "zorder", "hilbert")
_PLAN = "hoodie.clustering.plan.strategy"


def main() -> None:
    """Print a table: a line for each layout and column."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=2_000_000)
    p.add_argument("--files", type=int, default=32)
    p.add_argument("--repeat", type=int, default=5)
    a = p.parse_args()
    folder = tempfile.mkdtemp(prefix="penstock-skipping-")
    spark = penstock.session(**{"spark.ui.enabled": "false", "spark.driver.memory": "4g"})
    try:
        report(spark, folder, a.rows, a.files, a.repeat)
    finally:
        spark.stop()
        shutil.rmtree(folder)


def report(spark: Any, folder: str, rows: int, files: int, repeat: int) -> None:
    """Make the table, then measure it as it is and in each layout."""
    print(f"{rows:,} rows in about {files} files, a hundredth of them asked for, medians of {repeat}\n")
    print("| order | filter by | files read | of | rows read | seconds |\n|---|---|---:|---:|---:|---:|")
    unordered = f"{folder}/unordered"
    make_table(spark, unordered, rows, files)
    for layout in (None, *LAYOUTS):
        path = unordered
        if layout is not None:
            path = shutil.copytree(unordered, f"{folder}/{layout}")
            size = sum(map(os.path.getsize, base_files(path)))
            sizes = {f"{_PLAN}.target.file.max.bytes": size // files, f"{_PLAN}.small.file.limit": size}
            how = {f"{_PLAN}.sort.columns": ",".join(COLUMNS), "hoodie.layout.optimize.strategy": layout}
            penstock.Table.open(path, spark).cluster(options={**sizes, **how})
        for column in COLUMNS:
            low, high = rows // 2, rows // 2 + rows // 100 - 1
            read, seconds = query(spark, path, column, low, high, repeat)
            few, every = files_with(base_files(path), column, low, high)
            print(f"| {layout or 'none'} | {column} | {few} | {every} | {read:,} | {seconds:.2f} |")


def make_table(spark: Any, path: str, rows: int, files: int) -> None:
    """Write rows whose columns hold every number below the count once, in independent random orders."""
    frame = spark.range(0, rows, 1, files).selectExpr(
        "cast(id as string) id", f"(id * 7919) % {rows} ts", f"cast((id * 104729) % {rows} as double) fare"
    )
    options = {
        "hoodie.table.name": "skipping",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "bulk_insert",
    }
    frame.write.format("hudi").options(**options).mode("overwrite").save(path)


def query(spark: Any, path: str, column: str, low: int, high: int, repeat: int) -> tuple[int, float]:
    """Query a range. Return the rows that Spark read for it, and the median of the seconds."""
    seconds, read = [], 0
    for _ in range(repeat):
        frame = spark.read.format("hudi").load(path).where(f"{column} between {low} and {high}").select("id")
        began = time.perf_counter()
        frame.collect()
        seconds.append(time.perf_counter() - began)
        leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
        read = sum(int(leaves.apply(at).metrics().apply("numOutputRows").value()) for at in range(leaves.size()))
    return read, statistics.median(seconds)


def base_files(path: str) -> list[str]:
    """Return the files that a query of the table reads."""
    slices = (one for its in list_base_slices(open_table(path)).values() for one in its)
    return [one.base_file.path for one in slices if one.base_file is not None]


def files_with(paths: Iterable[str], column: str, low: int, high: int) -> tuple[int, int]:
    """Return the files with a row group that may hold a value of the range, by their statistics; and all files."""
    found = [any(_may_hold(group, column, low, high) for group in _groups(path)) for path in paths]
    return sum(found), len(found)


def _groups(path: str) -> list[Any]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(number) for number in range(metadata.num_row_groups)]


def _may_hold(group: Any, column: str, low: int, high: int) -> bool:
    its = next(group.column(at) for at in range(group.num_columns) if group.column(at).path_in_schema == column)
    known = its.statistics
    return known is None or not known.has_min_max or (known.min <= high and known.max >= low)


if __name__ == "__main__":
    main()

"""Measures where the time of a snapshot over logs goes (W8): the same query with more and more of the work.

    python -m bench.snapshot --rows 5000000

The table is merge-on-read, with two upserts in its logs. The aggregation of W8 runs in turns over the base files alone by Spark's
own reader, over the rows of base files that no log touches, over the rows of the logs alone, and over all. The work on the logs
is also measured without sending rows to Spark. The output is the medians, with their ratio to the plain scan.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from bench.data import generate
from bench.meter import Meter
from bench.on_spark import Penstock
from penstock.read import log_slices

TABLE, PAYLOAD = "mor", "hoodie.datasource.write.payload.class"


def main() -> None:
    """Write the table, measure the parts, and print them."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=1_000_000)
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--payload", default="OverwriteWithLatestAvroPayload", help="by the last part of its Java name")
    p.add_argument("--data", default="bench/out/data")
    p.add_argument("--out", default="bench/out/snapshot")
    a = p.parse_args()
    data, out = f"{os.path.abspath(a.data)}/{a.rows}", os.path.abspath(a.out)
    generate(data, a.rows, ["core"], 0)
    shutil.rmtree(out, ignore_errors=True)
    engine = Penstock("snapshot", out, "snappy")
    engine.OPTIONS = {**engine.OPTIONS, PAYLOAD: f"org.apache.hudi.common.model.{a.payload}"}
    engine.bulk_insert(TABLE, f"{data}/base")
    for batch in ("mor1", "mor2"):
        engine.upsert(TABLE, f"{data}/{batch}")
    report(engine, a.rows, a.repeat)
    engine.close()
    shutil.rmtree(out, ignore_errors=True)


def report(engine: Penstock, rows: int, repeat: int) -> None:
    """Measure every part in turns."""
    engine.before("W8p", TABLE)
    parts: dict[str, Callable[[], Any]] = {
        "base files, by Spark's own reader": lambda: engine.plain_checksum(TABLE),
        "base files without the rows that logs touch": lambda: without_logs(engine),
        "log rows, read in workers and dropped there": lambda: logs_alone(engine, drop=True),
        "log rows only": lambda: logs_alone(engine),
        "the snapshot": lambda: engine.checksum(TABLE),
    }
    meter, found = Meter(), {name: [] for name in parts}  # type: tuple[Meter, dict[str, list[dict[str, Any]]]]
    for turn in range(repeat + 1):
        for name, part in parts.items():
            _, measured = meter.measure(part)
            if turn:  # the first warms up
                found[name].append(measured)
    print(f"{rows:,} rows, a fifth of them in logs, medians of {repeat}\n")
    print("| part | seconds | ratio to the plain scan | CPU s | JVM CPU s | workers CPU s |\n|---|---:|---:|---:|---:|---:|")
    first = next(iter(parts))
    plain = statistics.median(m["s"] for m in found[first])
    for name, samples in found.items():
        figures = {k: statistics.median(m.get(k, 0.0) for m in samples) for k in ("s", "cpu", "cpu_jvm", "cpu_worker")}
        cpu = " | ".join(f"{figures[k]:.1f}" for k in ("cpu", "cpu_jvm", "cpu_worker"))
        print(f"| {name} | {figures['s']:.2f} | {figures['s'] / plain:.2f} | {cpu} |")


def without_logs(engine: Penstock) -> None:
    """Run the part of a snapshot that Spark's own reader does."""
    with patch.object(log_slices, "_read_in_workers", lambda *_: []):
        engine.checksum(TABLE)


def logs_alone(engine: Penstock, *, drop: bool = False) -> None:
    """Run the part of a snapshot that workers do. With `drop` workers send no rows to Spark."""
    run = partial(_dropping, log_slices._run_tasks) if drop else log_slices._run_tasks
    with patch.object(log_slices, "read_base_files", lambda *_: []), patch.object(log_slices, "_run_tasks", run):
        engine.checksum(TABLE)


def _dropping(run: Callable[..., Iterator[pa.RecordBatch]], *arguments: Any) -> Iterator[pa.RecordBatch]:
    for batch in run(*arguments):
        yield batch.slice(0, 0)


if __name__ == "__main__":
    main()

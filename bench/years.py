"""A table with years of history: thousands of real small commits, with cleaning and archiving after each.

The axis `years` of `bench.growth`. The other axes make a table for each point; this one keeps one table, and the commits before
each mark are measured. A mark's time is their median. Their mean, which includes the archiving of every few commits, is a
curve of its own, and the memory of the driver and its JVM is a table.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.meter import Meter
from bench.workload import Engine

#: Commits that are measured before a mark: two runs of archiving are among them.
MEASURED = 22
#: Commits to another table before the measurement, to warm up the JVM.
WARM = 150
MEMORY = {"rss_driver_mb": "Python", "rss_jvm_mb": "JVM", "heap_mb": "JVM's heap after a collection"}


def measure_years(
    engine: Engine, table: str, folder: Path, base: str, batches: Sequence[str], marks: Sequence[int], meter: Meter
) -> Iterator[dict[str, Any]]:
    """Commit up to the last mark. Return a record for each measured commit, and the mean at each mark."""
    for run, last in (("years-warm", min(WARM, max(marks))), ("years", max(marks))):
        engine.run = run
        engine.bulk_insert(table, str(folder / base))
        measured: list[float] = []
        for number in range(1, last + 1):
            commit = partial(engine.upsert, table, str(folder / batches[number % len(batches)]), "SIMPLE", None)
            mark = next((mark for mark in marks if mark - MEASURED < number <= mark), None)
            if run == "years-warm" or mark is None:
                commit()
                continue
            _, found = meter.measure(commit)
            measured.append(found["s"])
            yield {"size": mark, **found, **({"heap_mb": live_heap_mb(engine)} if number == mark else {})}
            if number == mark:
                yield {"size": mark, "what": "mean", "s": round(statistics.mean(measured), 4)}
                measured = []
        shutil.rmtree(f"{engine.root}/{engine.run}", ignore_errors=True)


def live_heap_mb(engine: Any) -> int:
    """Return the memory in use in the JVM's heap. The rest of its resident memory is garbage that was not collected yet."""
    jvm = engine.spark._jvm
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return (int(runtime.totalMemory()) - int(runtime.freeMemory())) >> 20


def years_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return, for each mark, the time as a multiple of the first mark's, and megabytes of the driver's two processes."""
    ours = [r for r in records if r["axis"] == "years" and "what" not in r]
    marks = sorted({r["size"] for r in ours})
    lines = ["| | " + " | ".join(f"{mark:,}" for mark in marks) + " |", "|---|" + "---:|" * len(marks)]
    for engine in dict.fromkeys(r["engine"] for r in ours):
        at = [[r for r in ours if (r["engine"], r["size"]) == (engine, mark)] for mark in marks]
        seconds = [statistics.median(r["s"] for r in its) for its in at]
        lines.append(f"| {engine}, time of the first | " + " | ".join(f"{s / seconds[0]:.2f}" for s in seconds) + " |")
        for key, name in MEMORY.items():
            lines.append(f"| {engine}, MB of {name} | " + " | ".join(f"{max(r.get(key, 0) for r in its):,}" for its in at) + " |")
    return "\n".join(lines)

"""Measures how time grows: an upsert against batch size, table size, number of file groups, columns, and commits before it.

    python -m bench.growth --engines limit,penstock43 --axes batch,commits --out bench/out/growth

Each point is the median of three upserts into a table made for it; a count is measured once. The exponent of growth between
neighbouring points is in brackets: 0 is flat, 1 is proportional. An exponent clearly above 1 is a line that bends upwards: a
defect to repair or to explain.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.bench import conditions, run_process, versions
from bench.data import CITIES, Maker, WideMaker, load_by_city, load_groups
from bench.engines import ENGINES, open_engine, why_not
from bench.meter import Meter
from bench.report import its_versions
from bench.workload import TABLES, Engine, TableSpec
from bench.years import measure_years, years_table

TABLE = "growing"
SAMPLES = 3
BENDS = 1.25
UNARCHIVED = {"hoodie.archive.automatic": "false"}
ROWS_PER_PARTITION = 100_000
#: The defaults.
SIZES = {
    "batch": [1_000, 10_000, 100_000, 1_000_000, 5_000_000],
    "table": [1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000],
    "groups": [1, 5, 20, 50, 100, 200],
    "columns": [12, 50, 100, 200, 500],
    "commits": [10, 100, 1_000, 5_000],
    "years": [50, 500, 1_000, 2_000, 5_000],
}
#: Axes that only Penstock supports, or that would take other engines days.
OURS = ("commits", "years")
LABELS = {
    "batch": "rows in the batch (nine tenths updates, over all files)",
    "table": "rows in the table, in partitions of 100,000; the batch is 10,000 rows of one partition",
    "groups": "file groups, all in one partition and all touched by the batch",
    "columns": "columns",
    "commits": "commits on the timeline; the batch is 1,000 rows of one partition",
    "years": "commits made before, each with cleaning and archiving after it; the batch is 100 rows of one partition",
}


@dataclass(frozen=True)
class Input:
    """The input of one point: rows to load, batches to upsert, and the number of rows in the end."""

    base: str
    batches: tuple[str, ...]
    rows: int
    groups: int = 0
    cities: tuple[str, ...] | None = None


def make_batch_input(folder: Path, size: int, rows: int) -> Input:
    """Make batches of `size` rows over all files of a table of `rows`."""
    make = Maker(folder, seed=31)
    base = load_by_city(make, "base", rows)
    known = min(size * 9 // 10, len(base))
    batches = [pa.concat_tables([make.update(base, known), make.insert(size - known)]) for _ in range(SAMPLES)]
    return _input(make, batches, len(base))


def make_table_input(folder: Path, size: int, rows: int) -> Input:
    """Make batches of fixed size for one partition of a table of `size` rows."""
    make, per = Maker(folder, seed=37), min(ROWS_PER_PARTITION, rows)
    names = [f"p{i:05d}" for i in range(max(1, size // per))]
    shutil.rmtree(folder / "base", ignore_errors=True)
    (folder / "base").mkdir(parents=True)
    for name in names:  # one at a time: the table may be larger than memory
        last = make.new(per, pa.repeat(name, per))
        pq.write_table(last, folder / "base" / f"{name}.parquet", compression="snappy")
    batches = [make.update(last, max(1, per // 10), [names[-1]]) for _ in range(SAMPLES)]
    return _input(make, batches, per * len(names), cities=(names[-1],))


def make_groups_input(folder: Path, size: int, rows: int) -> Input:
    """Make batches of a hundredth of the rows for a partition of `size` file groups."""
    make = Maker(folder, seed=41)
    base = load_groups(make, "base", rows, size)
    return _input(
        make, [make.update(base, 0.01) for _ in range(SAMPLES)], len(base), groups=size, cities=(base["city"][0].as_py(),)
    )


def make_columns_input(folder: Path, size: int, rows: int) -> Input:
    """Make batches of a tenth of the rows of a table of `size` columns, which has a tenth of the usual rows."""
    make = WideMaker(folder, seed=43)
    make.columns = size
    base = load_by_city(make, "base", rows // 10)
    return _input(make, [make.update(base, 0.1) for _ in range(SAMPLES)], len(base))


def make_commits_input(folder: Path, size: int, rows: int) -> Input:
    """Make batches of 1,000 rows for one partition. The commits are added later."""
    make = Maker(folder, seed=47)
    base = load_by_city(make, "base", rows // 10)
    tiny = min(1_000, len(base) // len(CITIES))
    return _input(make, [make.update(base, tiny, CITIES[:1]) for _ in range(SAMPLES)], len(base), cities=(CITIES[0],))


def make_years_input(folder: Path, size: int, rows: int) -> Input:
    """Make batches of 100 rows for one partition of a small table, used in turn."""
    make = Maker(folder, seed=53)
    base = load_by_city(make, "base", min(rows, 10_000))
    tiny = min(100, len(base) // len(CITIES))
    return _input(make, [make.update(base, tiny, CITIES[:1]) for _ in range(8)], len(base), cities=(CITIES[0],))


def _input(make: Maker, batches: Sequence[pa.Table], rows: int, groups: int = 0, cities: tuple[str, ...] | None = None) -> Input:
    fresh = 0
    for number, batch in enumerate(batches):
        make.write(f"batch{number}", batch, 4 if len(batch) > 50_000 else 1)
        fresh += int(np.sum(batch["seq"].to_numpy() >= rows))
    names = tuple(f"batch{i}" for i in range(len(batches)))
    return Input("base", names, rows + fresh, groups, cities)


MAKERS: dict[str, Callable[[Path, int, int], Input]] = {
    "batch": make_batch_input,
    "table": make_table_input,
    "groups": make_groups_input,
    "columns": make_columns_input,
    "commits": make_commits_input,
    "years": make_years_input,
}


def main() -> None:
    """Measure the curves, write tables and plots; in a child process, one engine."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that child processes are ended too
    a = arguments()
    if a.child:
        run_child(a)
        return
    Path(a.out).mkdir(parents=True, exist_ok=True)
    forget(Path(a.out, "growth.jsonl"), a.axes, a.engines)
    Path(a.out, "conditions.json").write_text(json.dumps(conditions(a), indent=1))
    for axis in a.axes:
        for size in a.sizes[axis]:
            prepare(a, axis, size)
    for name in a.engines:
        reason = why_not(name, 0)
        print(f"{name}: " + (f"skipped, {reason}" if reason else "running"), flush=True)
        if not reason:
            command = ["-m", "bench.growth", *a.given, "--child", name]
            code = run_process(ENGINES[name].python, command, Path(a.out, f"growth-{name}.log"), a.timeout)
            print(f"{name}: exit {code}", flush=True)
    write_report(a.out, a.publish)


def forget(file: Path, axes: Sequence[str], engines: Sequence[str]) -> None:
    """Drop the records of axes and engines that are measured again."""
    lines = file.read_text().splitlines() if file.exists() else []
    kept = [line for line in lines if (r := json.loads(line))["axis"] not in axes or r["engine"] not in engines]
    file.write_text("".join(f"{line}\n" for line in kept))


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    p = argparse.ArgumentParser(
        prog="python -m bench.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--engines", default="limit,penstock43", help=f"of {', '.join(ENGINES)}; {' and '.join(OURS)} are penstock's only"
    )
    p.add_argument("--axes", default=",".join(SIZES), help=f"of {', '.join(SIZES)}")
    p.add_argument("--rows", type=int, default=1_000_000, help="of the table, where that is not what grows")
    for axis, sizes in SIZES.items():
        p.add_argument(f"--{axis}", default=",".join(map(str, sizes)), metavar="SIZES", help=LABELS[axis])
    p.add_argument("--codec", default="snappy")
    p.add_argument("--data", help="where input is made; default OUT/data")
    p.add_argument("--out", default="bench/out/growth")
    p.add_argument("--publish", metavar="FOLDER", help="also write growth.md and its plots there")
    p.add_argument("--timeout", type=int, default=4 * 3600)
    p.add_argument("--child", help=argparse.SUPPRESS)
    a = p.parse_args()
    a.given = sys.argv[1:]
    a.out = os.path.abspath(a.out)
    a.data = os.path.abspath(a.data or f"{a.out}/data")
    a.axes, a.engines = a.axes.split(","), a.engines.split(",")
    a.sizes = {axis: [int(n) for n in getattr(a, axis).split(",")] for axis in SIZES}
    a.partitions, a.repeat, a.warm_rows = 0, SAMPLES, 0
    a.started = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    return a


def point_folder(a: argparse.Namespace, axis: str, size: int) -> Path:
    """Return the folder of a point's input. All numbers of commits share one."""
    return Path(a.data, f"{axis}-{0 if axis in OURS else size}-{a.rows}")


def prepare(a: argparse.Namespace, axis: str, size: int) -> None:
    """Make a point's input, unless it exists."""
    folder = point_folder(a, axis, size)
    if (folder / "input.json").exists():
        return
    print(f"generating {axis} {size:,}", flush=True)
    made = MAKERS[axis](folder, size, a.rows)
    (folder / "input.json").write_text(json.dumps(made.__dict__))


def run_child(a: argparse.Namespace) -> None:
    """Measure all axes on one engine. One JSON line per sample."""
    name, meter = a.child, Meter()
    root = f"{a.out}/tables/{name}"
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    engine = open_engine(name, root, a.codec)
    with Path(a.out, "growth.jsonl").open("a") as file:
        for axis in a.axes:
            if axis in OURS and not name.startswith("penstock"):
                continue
            measure = measure_marks if axis == "years" else measure_axis
            for number, record in enumerate(measure(a, engine, axis, meter)):
                line = {"engine": name, "axis": axis, "number": number, "versions": versions(engine), **record}
                file.write(json.dumps(line) + "\n")
                file.flush()
                print(json.dumps(line), flush=True)
    engine.close()
    shutil.rmtree(root, ignore_errors=True)


def measure_axis(a: argparse.Namespace, engine: Engine, axis: str, meter: Meter) -> Iterator[dict[str, Any]]:
    """Return the samples of an axis. The smallest size runs once more at first, to warm up."""
    sizes = a.sizes[axis]
    for turn, size in enumerate([sizes[0], *sizes]):
        folder = point_folder(a, axis, size)
        given = read_input(folder)
        TABLES[TABLE] = TableSpec("", groups=given.groups)
        engine.run = f"{axis}-{turn}"
        engine.bulk_insert(TABLE, str(folder / given.base))
        if axis == "commits":
            add_commits(engine.path(TABLE), size)
        cities = list(given.cities) if given.cities else None
        for how in (UNARCHIVED, {}) if axis == "commits" else ({},):
            with patch.object(engine, "OPTIONS", {**getattr(engine, "OPTIONS", {}), **how}, create=True):
                for batch in given.batches:
                    _, measured = meter.measure(partial(engine.upsert, TABLE, str(folder / batch), "SIMPLE", cities))
                    if turn:
                        yield {"size": size, **({"what": "without archiving"} if how else {}), **measured}
        count = engine.count(TABLE, "seq >= 0")
        if count != given.rows:
            raise SystemExit(f"{engine.name} has {count} rows after {axis} {size}, not {given.rows}")
        if turn and axis == "commits":
            _, measured = meter.measure(lambda: engine.count(TABLE, f"city = '{CITIES[0]}'"))
            yield {"size": size, "what": "count", **measured}
        shutil.rmtree(f"{engine.root}/{engine.run}", ignore_errors=True)


def measure_marks(a: argparse.Namespace, engine: Engine, axis: str, meter: Meter) -> Iterator[dict[str, Any]]:
    """Return the samples of an axis that keeps one table."""
    folder = point_folder(a, axis, 0)
    given = read_input(folder)
    TABLES[TABLE] = TableSpec("")
    yield from measure_years(engine, TABLE, folder, given.base, given.batches, sorted(a.sizes[axis]), meter)


def read_input(folder: Path) -> Input:
    """Return the input that `prepare` made."""
    raw = json.loads((folder / "input.json").read_text())
    return Input(**{**raw, "batches": tuple(raw["batches"])})


def add_commits(path: str, count: int) -> None:
    """Add commits to the timeline, older than the table's own: copies of its last one, as years of small writes would leave."""
    folder = Path(path, ".hoodie")
    last = max(p.name.split(".")[0] for p in folder.iterdir() if p.name[0].isdigit())
    contents = {p.name[len(last) :]: p.read_bytes() for p in folder.iterdir() if p.name.startswith(last) and p.is_file()}
    first = datetime(2020, 1, 1)
    for number in range(count):
        instant = (first + timedelta(minutes=number)).strftime("%Y%m%d%H%M%S000")
        for ending, data in contents.items():
            (folder / f"{instant}{ending}").write_bytes(data)


def write_report(out: str, publish: str | None = None) -> None:
    """Write growth.json, growth.md and a plot per axis, in the output folder and where they are published."""
    from bench.plots import plot_growth

    records = [json.loads(line) for line in Path(out, "growth.jsonl").read_text().splitlines()]
    facts = json.loads(Path(out, "conditions.json").read_text())
    curves = collect(records)
    parts = ["# How time grows", __doc__.split("\n\n")[2].strip() if __doc__ else ""]
    parts.append(
        "\n".join(
            f"- {k.replace('_', ' ')}: {facts[k]}" for k in ("rows", "codec", "cores", "processor", "memory_gib", "started")
        )
    )
    of = {r["engine"]: r["versions"] for r in records}
    parts.append("\n".join(f"- `{name}`: {ENGINES[name].about} ({its_versions(name, found)})" for name, found in of.items()))
    for axis, by_name in curves.items():
        plot_growth(axis, LABELS[axis], by_name, Path(out, f"growth-{axis}.svg"))
        parts += [f"## {axis}", LABELS[axis].capitalize() + ".", growth_table(by_name)]
        parts += [*slow_ones(axis, records), f"![{axis}](growth-{axis}.svg)"]
        parts += [years_table(records)] if axis == "years" else []
    Path(out, "growth.md").write_text("\n\n".join(parts) + "\n")
    Path(out, "growth.json").write_text(json.dumps({"conditions": facts, "curves": curves}, indent=1))
    print(Path(out, "growth.md").read_text())
    if publish:
        Path(publish).mkdir(parents=True, exist_ok=True)
        for file in [Path(out, "growth.md"), Path(out, "growth.json"), *Path(out).glob("growth-*.svg")]:
            shutil.copy(file, publish)


def collect(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return the medians by axis and curve, points in order of size."""
    samples: dict[str, dict[str, dict[int, list[float]]]] = {}
    for r in records:
        name = f"{r['engine']} {r['what']}" if r.get("what") else r["engine"]
        samples.setdefault(r["axis"], {}).setdefault(name, {}).setdefault(r["size"], []).append(r["s"])
    return {
        axis: {name: [(size, statistics.median(s)) for size, s in sorted(points.items())] for name, points in by_name.items()}
        for axis, by_name in samples.items()
    }


def slow_ones(axis: str, records: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for each point with a sample of more than twice the median, which a median hides."""
    samples: dict[tuple[str, int], list[float]] = {}
    for r in records:
        if r["axis"] == axis and not r.get("what"):
            samples.setdefault((r["engine"], r["size"]), []).append(r["s"])
    far = {at: s for at, s in samples.items() if max(s) > 2 * statistics.median(s)}
    said = [f"- {name} at {size:,}: {' / '.join(f'{s:.2f}' for s in its)} s" for (name, size), its in far.items()]
    return ["Points whose slowest sample took more than twice the median:", "\n".join(said)] if said else []


def growth_table(curves: dict[str, list[tuple[int, float]]]) -> str:
    """Return the seconds at each size, and the exponent since the size before. A curve that bends upwards is marked."""
    sizes = sorted({size for points in curves.values() for size, _ in points})
    lines = ["| | " + " | ".join(f"{s:,}" for s in sizes) + " |", "|---|" + "---:|" * len(sizes)]
    for name, points in curves.items():
        cells = {points[0][0]: f"{points[0][1]:.2f}"}
        for (size0, s0), (size, s) in pairwise(points):
            exponent = math.log(s / s0) / math.log(size / size0)
            cells[size] = f"{s:.2f} (^{exponent:.2f}{' bends' if exponent > BENDS else ''})"
        lines.append(f"| {name} | " + " | ".join(cells.get(s, "") for s in sizes) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""Runs the workload on several engines, a fresh process each time, and puts them side by side.

    python -m bench --engines limit,penstock,hudi015 --rows 200000 --out bench/out/try

Rounds are interleaved: every engine runs once, then every engine again, in another order; a fast engine may be named several
times, between slow ones, to run more often. A process first goes through the whole sequence on a small input (class loading,
compilation), then once at full size on new tables.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench import report
from bench.data import generate, read_truth
from bench.engines import ENGINES, ROOT, open_engine, why_not
from bench.meter import Meter
from bench.workload import IDS, Engine, run, sections_of

DEFAULT_ENGINES = "limit,penstock,penstock43,hudi015"
WARM_PARTITIONS = 20


def main() -> None:
    """Measure all engines; in a child process, one engine."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that child processes are ended too
    a = arguments()
    if a.child:
        run_child(a)
        return
    start_folder(a)
    sections = sections_of(a.steps)
    generate(data_folder(a, a.rows), a.rows, sections, a.partitions)
    generate(data_folder(a, a.warm_rows), a.warm_rows, sections, WARM_PARTITIONS)
    turns: Counter[str] = Counter()
    failed = []
    for number in range(1, a.repeat + 1):
        for name in in_turn(a.engines, number):
            turns[name] += 1
            failed += [] if measure(a, name, turns[name]) else [name]
            report.write(a.out)
    print(Path(a.out, "results.md").read_text())
    if a.publish and a.page:
        report.publish_page(a.out, a.publish, a.page)
    elif a.publish:
        report.publish(a.out, a.publish)
    if failed:
        sys.exit(f"not measured to the end: {', '.join(failed)}; their logs are in {a.out}")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    p = argparse.ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engines", default=DEFAULT_ENGINES, help=f"of {', '.join(ENGINES)}; or all; one may come several times")
    p.add_argument("--steps", default="", help="default all; a table's steps build on each other")
    p.add_argument("--rows", type=int, default=1_000_000)
    p.add_argument("--partitions", type=int, default=1_000, help="of the table of many partitions (W15)")
    p.add_argument("--repeat", type=int, default=1, help="rounds; in each every engine runs once")
    p.add_argument("--warm-rows", type=int, default=20_000)
    p.add_argument("--codec", default="snappy", choices=["snappy", "zstd", "gzip"])
    p.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH", help="another interpreter for one engine")
    p.add_argument("--data", help="where input is made and kept; default bench/out/data")
    p.add_argument("--out", default="bench/out/bench", help="results, raw.jsonl, logs and, while it runs, the tables")
    p.add_argument("--publish", metavar="FOLDER", help="also write the page with plots there")
    p.add_argument("--page", help="publish under this name, next to the main page")
    p.add_argument("--note", help="a remark on the machine, for the conditions")
    p.add_argument("--timeout", type=int, default=3600, help="seconds for one engine and round")
    p.add_argument("--keep", action="store_true", help="leave the tables on disk")
    p.add_argument("--child", help=argparse.SUPPRESS)
    p.add_argument("--round", type=int, default=1, help=argparse.SUPPRESS)
    p.add_argument("--started", default=time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()), help=argparse.SUPPRESS)
    a = p.parse_args()
    a.engines = list(ENGINES) if a.engines == "all" else a.engines.split(",")
    a.steps = a.steps.split(",") if a.steps else IDS
    if unknown := set(a.steps) - set(IDS):
        p.error(f"no step {', '.join(sorted(unknown))}; there are {', '.join(IDS)}")
    a.out, a.data = os.path.abspath(a.out), os.path.abspath(a.data or "bench/out/data")
    return a


def data_folder(a: argparse.Namespace, rows: int) -> str:
    """Return the folder of the input of a size."""
    return f"{a.data}/{rows}" if rows != a.warm_rows else f"{a.data}/{rows}-warm"


def in_turn(engines: Sequence[str], number: int) -> list[str]:
    """Return the engines of a round. Each round begins with another one."""
    at = (number - 1) % len(engines)
    return [*engines[at:], *engines[:at]]


def start_folder(a: argparse.Namespace) -> None:
    """Prepare the output folder. Results of another size or codec in it are moved aside."""
    out, now = Path(a.out), conditions(a)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "conditions.json"
    if file.exists():
        before = json.loads(file.read_text())
        if any(before.get(k) != now[k] for k in ("rows", "partitions", "codec")):
            (out / "raw.jsonl").replace(out / f"raw-{before['rows']}.jsonl") if (out / "raw.jsonl").exists() else None
    file.write_text(json.dumps(now, indent=1))


def conditions(a: argparse.Namespace) -> dict[str, Any]:
    """Return the conditions of the measurement."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "rows": a.rows,
        "partitions": a.partitions,
        "codec": a.codec,
        "rounds": a.repeat,
        "warm_rows": a.warm_rows,
        "master": os.environ.get("BENCH_MASTER", "local[2]"),
        "driver_memory": os.environ.get("BENCH_DRIVER_MEMORY", "8g"),
        "cores": os.cpu_count(),
        "processor": processor(),
        "memory_gib": round(memory),
        "system": platform.platform(terse=True),
        "penstock_commit": commit(),
        "started": f"{a.started} UTC",
        "load_at_start": round(os.getloadavg()[0], 2),
        **({"note": a.note} if a.note else {}),
    }


def processor() -> str:
    """Return the processor's name, if the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def measure(a: argparse.Namespace, name: str, number: int) -> bool:
    """Run one engine for one round in a process of its own. Return False if it did not finish. Skipped engines are recorded."""
    python = Path(dict(p.split("=", 1) for p in a.python).get(name) or ENGINES[name].python if name in ENGINES else "")
    reason = why_not(name, a.rows, python)
    if reason:
        print(f"{name}: skipped, {reason}", flush=True)
        emitter(a, name, number)({"run": "none", "step": "none", "status": "skipped", "detail": reason})
        return True
    print(f"round {number}, {name}: running", flush=True)
    began = time.monotonic()
    command = ["-m", "bench", *sys.argv[1:], "--child", name, "--round", str(number), "--started", a.started]
    code = run_process(python, command, Path(a.out, f"{name}-{number}.log"), a.timeout)
    print(f"round {number}, {name}: exit {code} after {time.monotonic() - began:.0f} s", flush=True)
    if code:
        emitter(a, name, number)({"run": "none", "step": "none", "status": "failed", "detail": f"exit code {code}"})
    return code == 0


def run_process(python: Path, arguments: Sequence[str], log: Path, timeout: float) -> int:
    """Run a child process and end it with all it started if it takes too long. Its output goes to a file."""
    variables = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "TZ": "UTC"}
    for other in ("SPARK_HOME", "SPARK_REMOTE", "PYTHONPATH"):
        variables.pop(other, None)
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(python), *arguments], stdout=out, stderr=out, env=variables, cwd=ROOT, start_new_session=True
        )
        try:
            return process.wait(timeout)
        except BaseException as e:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            print(f"stopped: {type(e).__name__}", flush=True)
            if not isinstance(e, subprocess.TimeoutExpired):
                raise
            return code


def run_child(a: argparse.Namespace) -> None:
    """Run one engine: warm up, then the timed run. One JSON line per step goes to raw.jsonl."""
    name, meter = a.child, Meter()
    root = f"{a.out}/tables/{name}"
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    emit = emitter(a, name, a.round)
    start = time.perf_counter()
    engine = open_engine(name, root, a.codec)
    emit(
        {
            "run": "start",
            "step": "start",
            "status": "ok",
            "s": round(time.perf_counter() - start, 2),
            "versions": versions(engine),
        }
    )
    for engine.run, rows in (("warm", a.warm_rows), (f"r{a.round}", a.rows)):
        folder = data_folder(a, rows)
        run(engine, folder, read_truth(folder), a.steps, meter, lambda record: emit({"run": engine.run, **record}))
        if not a.keep:
            shutil.rmtree(f"{root}/{engine.run}", ignore_errors=True)
    engine.close()
    if not a.keep:
        shutil.rmtree(root, ignore_errors=True)


def emitter(a: argparse.Namespace, name: str, number: int) -> Callable[[dict[str, Any]], None]:
    """Return a function that appends records to raw.jsonl, so that they are kept when a later step fails."""

    def emit(record: dict[str, Any]) -> None:
        line = json.dumps({"engine": name, "started": a.started, "round": number, "rows": a.rows, **record})
        print(line, flush=True)
        with Path(a.out, "raw.jsonl").open("a") as file:
            file.write(line + "\n")

    return emit


def versions(engine: Engine | None = None) -> dict[str, str]:
    """Return the versions that this process runs on; for an engine on Spark, with its Java."""
    found = {"python": platform.python_version()}
    for package in ("pyspark", "pyarrow", "deltalake", "pyiceberg", "penstock"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if spark := getattr(engine, "spark", None):
        found["java"] = str(spark._jvm.System.getProperty("java.version"))
    return found


def commit() -> str:
    """Return the commit of Penstock that is measured, and whether the files differ from it."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True, capture_output=True, check=False)
    return done.stdout.strip() or "unknown"

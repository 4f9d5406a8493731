"""Measures where an upsert spends its time: stage by stage, JVM against Python, and inside the kernels.

    python -m bench.profile --rows 1000000 --workload upsert

1. The transfer of the rows alone: Spark's scan of the batch, and the scan with the transfer to Python.
2. One write, with wall time and CPU of driver, JVM and workers for every stage.
3. The same kind of write again; the heaviest task of every kernel also runs in this process, first with timers around
   decode, match, merge, encode, footer and bloom filter, then under a sampler that makes the flame graph. What it writes is
   removed with the markers of the write, as the files of a lost attempt are.

Tables and flame graphs go to the output folder, and to one where they are published, if you name it. Run it as a module: as a
script it would hide Python's own `profile`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from bench.bench import processor, versions
from bench.data import generate
from bench.flame import Sampler, Stack, write_collapsed, write_flame
from bench.meter import cpu_by_kind
from bench.on_spark import Penstock
from bench.workload import TABLES

KINDS = ("driver", "jvm", "worker")


@dataclass(frozen=True)
class Workload:
    """A table, and two writes of the same kind to it."""

    section: str
    table: str
    load: str
    batches: tuple[str, str]
    operation: str = "upsert"
    index: str = "BLOOM"


WORKLOADS = {
    "upsert": Workload("core", "cow", "base", ("up1", "up2")),
    "groups": Workload("groups", "groups", "groups", ("groups_up", "groups_up")),
    "city": Workload("core", "cow", "base", ("city", "city"), index="SIMPLE"),
    "tiny": Workload("core", "cow", "base", ("tiny1", "tiny2"), index="SIMPLE"),
    "delete": Workload("core", "cow", "base", ("delete", "delete"), operation="delete"),
    "wide": Workload("wide", "wide", "wide", ("wide_up", "wide_up"), index="SIMPLE"),
    "nested": Workload("nested", "nested", "nested", ("nested_up", "nested_up"), index="SIMPLE"),
}

#: What is timed around a stage: module, name, label. `Stages.run` measures the stages that the write itself names.
STAGES = (
    ("penstock.door.write", "open_table", "open table"),
    ("penstock.door.write", "prepare_rows", "prepare"),
    ("penstock.door.write", "roll_back_failed", "roll back failed"),
    ("penstock.write.operations", "publish", "commit"),
    ("penstock.door.write", "follow_up_write", "follow up"),
)
#: What is timed inside a kernel: module, dotted name, label. A function that does not exist is left out.
PARTS = (
    ("pyarrow.parquet", "ParquetFile.read_row_group", "decode"),
    ("pyarrow.parquet", "ParquetWriter.write_table", "encode"),
    ("pyarrow.parquet", "ParquetWriter.close", "footer"),
    ("penstock.filegroup.key_footer", "KeyFooter.__init__", "bloom filter"),
    ("penstock.filegroup.key_footer", "KeyFooter.add", "bloom filter"),
    ("penstock.filegroup.key_footer", "KeyFooter.metadata", "bloom filter"),
    ("penstock.formats.parquet", "repetitive_columns", "choose dictionaries"),
    ("penstock.filegroup.base_read", "fit_to_schema", "fit to schema"),
    ("penstock.write.tasks.upsert_kernel", "load_task_rows", "load incoming rows"),
    ("penstock.write.tasks.upsert_kernel", "choose_task_rows", "load incoming rows"),
    ("penstock.write.locate.tag", "load_task_rows", "load incoming rows"),
    ("penstock.write.locate.tag", "look_up", "look up keys"),
    ("penstock.write.tasks.upsert_kernel", "holds_any_key", "look up keys"),
    ("penstock.write.tasks.base_file", "_find_by_key", "match keys"),
    ("penstock.write.tasks.task_rows", "TaskRows.take", "gather new rows"),
    ("penstock.write.tasks.base_file", "_write_row_group", "merge"),
    ("penstock.filegroup.base_write", "add_file_columns", "meta columns"),
    ("penstock.filegroup.base_write", "stamp_rows", "meta columns"),
    ("penstock.write.rows.staging", "_StagedFile._flush", "write staged rows"),
    ("penstock.storage.local", "LocalStorage.sync", "sync to disk"),
    ("penstock.storage.local", "LocalStorage.create", "create files"),
    ("penstock.storage.local", "LocalStorage.open", "open files"),
    ("penstock.storage.local", "LocalStorage.map", "open files"),
    ("penstock.storage.local", "LocalStorage.stat", "create files"),
)


class Timers:
    """Seconds per label, without blocks timed inside. Threads are timed separately, so the sum may exceed the whole."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._here = threading.local()

    @property
    def _open(self) -> list[float]:
        """The seconds already counted inside each block that is being timed in this thread."""
        if not hasattr(self._here, "open"):
            self._here.open = []
        opened: list[float] = self._here.open
        return opened

    @contextmanager
    def time(self, label: str) -> Iterator[None]:
        """Time a block."""
        start = time.perf_counter()
        self._open.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - start
            self.seconds[label] += whole - self._open.pop()  # type: ignore[assignment]
            self.calls[label] += 1
            if self._open:
                self._open[-1] += whole

    def around(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a timer around it."""

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.time(label):
                return function(*args, **kwargs)

        return timed

    @contextmanager
    def installed(self, parts: Sequence[tuple[str, str, str]]) -> Iterator[None]:
        """Time these functions while the block runs."""
        with ExitStack() as stack:
            for module, name, label in parts:
                owner, attribute = _owner(module, name)
                if owner is not None:
                    stack.enter_context(patch.object(owner, attribute, self.around(label, getattr(owner, attribute))))
            yield


def _owner(module: str, name: str) -> tuple[Any, str]:
    """Return the module or class that holds a function, or None, and the function's name in it."""
    *path, attribute = name.split(".")
    try:
        owner: Any = import_module(module)
        for step in path:
            owner = getattr(owner, step)
        getattr(owner, attribute)
    except (ImportError, AttributeError):
        return None, attribute
    return owner, attribute


@dataclass
class StageMeter:
    """Wall and CPU of the stages of one write."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    _me: psutil.Process = field(default_factory=psutil.Process)
    _inside: bool = False

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure one stage. A stage inside it is part of it."""
        if self._inside:
            yield
            return
        self._inside = True
        cpu, start = cpu_by_kind(self._me), time.perf_counter()
        try:
            yield
        finally:
            self._inside = False
        seconds, after = time.perf_counter() - start, cpu_by_kind(self._me)
        self.rows.append({"stage": name, "s": seconds, **{k: after.get(k, 0.0) - cpu.get(k, 0.0) for k in KINDS}})

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Measure the stages of writes while the block runs."""
        from penstock.progress import Stages

        usual = Stages.run

        @contextmanager
        def run(stages: Any, name: str, *more: Any) -> Iterator[Any]:
            with self.stage(name), usual(stages, name, *more) as notes:
                yield notes

        with ExitStack() as stack:
            stack.enter_context(patch.object(Stages, "run", run))
            for module, name, label in STAGES:
                owner, attribute = _owner(module, name)
                if owner is not None:
                    stack.enter_context(patch.object(owner, attribute, self.around(label, getattr(owner, attribute))))
            yield

    def around(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, measured as a stage."""

        @wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.stage(label):
                return function(*args, **kwargs)

        return measured


@dataclass
class KernelProfile:
    """One kernel, run in this process on its heaviest task."""

    name: str
    tasks: int
    seconds: float
    parts: Mapping[str, float]
    stacks: Counter[Stack]


def name_of(kernel: Any) -> str:
    """Return the name of a kernel's function; of a kernel that is an argument of another one, the inner name."""
    while isinstance(kernel, partial):
        kernel = kernel.args[0] if kernel.args and callable(kernel.args[0]) else kernel.func
    return str(kernel.__name__)


class KernelWatch:
    """Runs one task of every kernel in this process, before the write runs them all."""

    def __init__(self) -> None:
        self.found: list[KernelProfile] = []
        self._attempts = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Watch the kernels of writes while the block runs."""
        with ExitStack() as stack:
            watched = (
                ("penstock.workers.runner", "run_in_spark", self._spark_tasks),
                ("penstock.workers.runner", "run_on_driver", self._driver_tasks),
                ("penstock.write.rows.input_files", "run_over_rows", self._rows),
            )
            for module, name, around in watched:
                owner, attribute = _owner(module, name)
                if owner is not None:
                    stack.enter_context(patch.object(owner, attribute, partial(around, getattr(owner, attribute))))
            yield

    def _spark_tasks(
        self, usual: Callable[..., Any], spark: Any, kernel: Callable[..., Any], tasks: Sequence[Any], returns: Any
    ) -> Any:
        self._profile(name_of(kernel), len(tasks), lambda: kernel(tasks[0]))
        return usual(spark, kernel, tasks, returns)

    def _driver_tasks(self, usual: Callable[..., Any], kernel: Callable[..., Any], tasks: Sequence[Any], **more: Any) -> Any:
        self._profile(name_of(kernel), len(tasks), lambda: kernel(tasks[0]))
        return usual(kernel, tasks, **more)

    def _rows(self, usual: Callable[..., Any], rows: Any, kernel: Callable[..., Any], returns: Any) -> Any:
        if hasattr(rows, "toArrow"):
            batches = rows.toArrow().to_batches(max_chunksize=50_000)
            self._profile(name_of(kernel), 1, lambda: list(kernel(iter(batches))))
        return usual(rows, kernel, returns)

    def _profile(self, name: str, tasks: int, work: Callable[[], Any]) -> None:
        with self._identity():
            work()  # once to warm up
        timers, sampler = Timers(), Sampler()
        with self._identity(), timers.installed(PARTS):
            start = time.perf_counter()
            with timers.time("rest"):
                work()
            seconds = time.perf_counter() - start
        with self._identity(), sampler.running():
            work()
        self.found.append(KernelProfile(name, tasks, seconds, dict(timers.seconds), sampler.stacks))

    @contextmanager
    def _identity(self) -> Iterator[None]:
        """Set an identity that no task of the write has, so that files do not collide."""
        from penstock.workers import run_kernels as spread

        self._attempts += 1
        spread._local.identity = spread.TaskIdentity(0, f"0-9999-{self._attempts}")
        try:
            yield
        finally:
            spread._local.identity = None


def main() -> None:
    """Profile, print the tables, and keep them with the flame graphs."""
    a = arguments()
    out, workload = Path(a.out), WORKLOADS[a.workload]
    shutil.rmtree(out / "tables", ignore_errors=True)
    (out / "tables").mkdir(parents=True)
    for rows in (a.warm_rows, a.rows):
        generate(f"{a.data}/{rows}", rows, [workload.section])
    engine = Penstock("profile", str(out / "tables"), a.codec)
    for engine.run, rows in (("warm", a.warm_rows), ("full", a.rows)):
        data = f"{a.data}/{rows}"
        engine.bulk_insert(workload.table, f"{data}/{workload.load}")
        transfer = measure_transfer(engine, f"{data}/{workload.batches[0]}")
        total, meter, driver = measure_stages(engine, workload, f"{data}/{workload.batches[0]}")
        watch = KernelWatch()
        with watch.installed():
            write_batch(engine, workload, f"{data}/{workload.batches[1]}")
    engine.close()
    text = page(a, workload, transfer, total, meter, watch.found)
    write_files(out, a, text, transfer, total, meter, watch.found, driver)
    print(text)
    if a.publish:
        for name in ["profile.md", "profile.json", "flame-driver.svg", *(f"flame-{kernel.name}.svg" for kernel in watch.found)]:
            shutil.copy(out / name, a.publish)
    shutil.rmtree(out / "tables", ignore_errors=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="python -m bench.profile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--workload", default="upsert", choices=WORKLOADS)
    p.add_argument("--rows", type=int, default=1_000_000)
    p.add_argument("--warm-rows", type=int, default=20_000)
    p.add_argument("--codec", default="snappy")
    p.add_argument("--data", default="bench/out/data")
    p.add_argument("--out", default="bench/out/profile")
    p.add_argument("--publish", metavar="FOLDER", help="also write profile.md and its flame graphs there")
    a = p.parse_args()
    a.data, a.out = os.path.abspath(a.data), os.path.abspath(a.out)
    return a


def write_batch(engine: Penstock, workload: Workload, src: str) -> None:
    """Run one write of the workload."""
    engine.write(workload.table, src, workload.operation, workload.index)


def measure_transfer(engine: Penstock, src: str) -> dict[str, float]:
    """Return the seconds of Spark's scan of a batch, and of scan and transfer to Python."""
    found = {}
    for name in ("scan in the JVM", "scan in the JVM and transfer to Python"):
        frame = engine.source(src)
        start = time.perf_counter()
        if name == "scan in the JVM":
            frame.write.format("noop").mode("overwrite").save()
        else:
            frame.mapInArrow(_drain, "rows long").collect()
        found[name] = time.perf_counter() - start
    return found


def _drain(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.record_batch([pa.array([sum(b.num_rows for b in batches)])], names=["rows"])


def measure_stages(engine: Penstock, workload: Workload, src: str) -> tuple[dict[str, Any], StageMeter, Counter[Stack]]:
    """Measure one write; return its whole, its stages, and the driver's stacks."""
    meter, whole, sampler = StageMeter(), StageMeter(), Sampler()
    opened = meter.around("open the input", engine.source)
    with meter.installed(), sampler.running(), whole.stage("all"), patch.object(engine, "source", opened):
        write_batch(engine, workload, src)
    return whole.rows[0], meter, sampler.stacks


def page(
    a: argparse.Namespace,
    workload: Workload,
    transfer: Mapping[str, float],
    total: Mapping[str, Any],
    meter: StageMeter,
    kernels: Sequence[KernelProfile],
) -> str:
    """Return the page as Markdown."""
    about = f"{a.rows:,} rows, {workload.operation} of `{workload.batches[0]}` into `{workload.table}`"
    about += f" ({TABLES[workload.table].groups or 'one'} file group(s) a partition), index {workload.index}, {a.codec}; "
    about += ", ".join(f"{k} {v}" for k, v in versions().items()) + f"; {os.cpu_count()} cores, {processor()}."
    parts = [f"# Where the time goes: {a.workload}", about]
    lines = ["| stage | wall s | share | driver CPU s | JVM CPU s | workers CPU s |", "|---|---:|---:|---:|---:|---:|"]
    known = {k: sum(r[k] for r in meter.rows) for k in ("s", *KINDS)}
    rest = {"stage": "rest", **{k: total[k] - known[k] for k in known}}
    for row in [*meter.rows, rest, {**total, "stage": "**all**"}]:
        cells = [f"{row[k]:.2f}" for k in KINDS]
        lines.append(f"| {row['stage']} | {row['s']:.2f} | {row['s'] / total['s']:.0%} | " + " | ".join(cells) + " |")
    parts += ["## Stages", "\n".join(lines)]
    lines = ["| transfer of the batch | s |", "|---|---:|", *(f"| {name} | {s:.2f} |" for name, s in transfer.items())]
    way = "Workers read the files of the batch directly. Computing the rows in Spark and sending them to Python would take:"
    parts += ["## Transfer", way, "\n".join(lines)]
    ahead = " Another thread decodes the next row group while this one merges and encodes; the graph does not show that thread."
    for kernel in kernels:
        lines = ["| part | s | share |", "|---|---:|---:|"]
        lines += [f"| {n} | {s:.3f} | {s / kernel.seconds:.0%} |" for n, s in sorted(kernel.parts.items(), key=lambda p: -p[1])]
        parts += [
            f"## Kernel `{kernel.name}`",
            f"The heaviest of {kernel.tasks} task(s), run alone: {kernel.seconds:.2f} s.{ahead}",
        ]
        parts += ["\n".join(lines), f"![flame graph](flame-{kernel.name}.svg)"]
    return "\n\n".join([*parts, "![flame graph of the driver](flame-driver.svg)"]) + "\n"


def write_files(
    out: Path,
    a: argparse.Namespace,
    text: str,
    transfer: Mapping[str, float],
    total: Mapping[str, Any],
    meter: StageMeter,
    kernels: Sequence[KernelProfile],
    driver: Counter[Stack],
) -> None:
    """Write the page, its figures as JSON, and the flame graphs."""
    (out / "profile.md").write_text(text)
    figures = {
        "workload": a.workload,
        "rows": a.rows,
        "transfer": transfer,
        "all": total,
        "stages": meter.rows,
        "kernels": [{"name": k.name, "tasks": k.tasks, "s": k.seconds, "parts": k.parts} for k in kernels],
    }
    (out / "profile.json").write_text(json.dumps(figures, indent=1))
    write_flame(driver, out / "flame-driver.svg", f"the driver during {a.workload}", "__main__.write_batch")
    for kernel in kernels:
        where = f"kernel {kernel.name}, one task"
        write_flame(kernel.stacks, out / f"flame-{kernel.name}.svg", where, "__main__._profile")
        write_collapsed(kernel.stacks, out / f"flame-{kernel.name}.txt")


if __name__ == "__main__":
    main()

"""Measures one step: wall time, and CPU, memory and bytes of this process and its children."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import psutil

T = TypeVar("T")
_EVERY_SECONDS = 0.2


class Meter:
    """Measures the tree of this process and its children, and the CPU time of all other processes during the measurement."""

    def __init__(self) -> None:
        self.me = psutil.Process()
        self.peak: dict[str, int] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def measure(self, work: Callable[[], T]) -> tuple[T, dict[str, Any]]:
        """Run the work. Return its result and the figures."""
        os.sync()
        self.peak = {}
        cpu, io, busy, start = cpu_by_kind(self.me), self._io(), _busy(), time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        self._look()
        spent = {kind: value - cpu.get(kind, 0.0) for kind, value in cpu_by_kind(self.me).items()}
        total = sum(spent.values())
        moved = {name: round((value - io[name]) / 2**20, 2) for name, value in self._io().items() if name in io}
        return result, {
            "s": round(seconds, 3),
            "cpu": round(total, 2),
            **{f"cpu_{kind}": round(value, 2) for kind, value in spent.items()},
            "others_cpu": round(max(0.0, _busy() - busy - total), 2),
            "rss_mb": self.peak.get("all", 0) >> 20,
            **{f"rss_{kind}_mb": value >> 20 for kind, value in self.peak.items() if kind != "all"},
            **moved,
        }

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(_EVERY_SECONDS)

    def _look(self) -> None:
        """Sample the memory. A JVM below a JVM is about to run a shell command, and has the same memory: it is left out."""
        jvms: set[int] = set()
        found = {"all": 0}
        for process in tree(self.me):
            with contextlib.suppress(psutil.Error):
                kind = kind_of(process)
                if kind == "jvm" and process.ppid() in jvms:
                    continue
                if kind == "jvm":
                    jvms.add(process.pid)
                size = process.memory_info().rss
                found["all"] += size
                found[kind] = found.get(kind, 0) + size
        peak = self.peak
        for kind, size in found.items():
            peak[kind] = max(peak.get(kind, 0), size)

    def _io(self) -> dict[str, int]:
        """Return the bytes of read and write calls and of the disk. The bytes of a finished child are in its parent's."""
        found: dict[str, int] = {}
        for process in tree(self.me):
            with contextlib.suppress(psutil.Error, AttributeError):
                counters = process.io_counters()
                for name, field in _IO.items():
                    found[name] = found.get(name, 0) + getattr(counters, field, 0)
        return found


_IO = {"read_mb": "read_chars", "write_mb": "write_chars", "disk_read_mb": "read_bytes", "disk_write_mb": "write_bytes"}


def tree(me: psutil.Process) -> list[psutil.Process]:
    """Return a process and all processes below it, parents first."""
    return [me, *me.children(recursive=True)]


def kind_of(process: psutil.Process) -> str:
    """Return `driver` for this process, `jvm`, or `worker` for any other process below."""
    if process.pid == os.getpid():
        return "driver"
    return "jvm" if os.path.basename(process.exe()).startswith("java") else "worker"


def cpu_by_kind(me: psutil.Process) -> dict[str, float]:
    """Return the CPU seconds so far of driver, JVM and workers, finished children included."""
    found: dict[str, float] = {}
    for process in tree(me):
        with contextlib.suppress(psutil.Error):
            kind = kind_of(process)
            found[kind] = found.get(kind, 0.0) + sum(process.cpu_times()[:4])
    return found


def _busy() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def sizes_below(path: str) -> dict[str, int]:
    """Return every file below a folder, with its size."""
    found: dict[str, int] = {}
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                full = os.path.join(folder, name)
                found[full] = os.path.getsize(full)
    return found


def growth_of(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    """Return the bytes of new files and of additions to old files."""
    return sum(max(0, size - before.get(path, 0)) for path, size in after.items())

"""A storage with a fault at one of its calls, of every kind of fault, for tests of the table afterwards.

It wraps the local file system. Calls are counted in a file, so that the driver, its threads and Spark's workers share one
count. By default calls that change something are counted, including the closing of a stream; `FaultPlan.looks` counts the calls
that only read instead. A process that crashed does nothing more: every later call of the same run raises `Crash` too.

Paths with the scheme `crash:` are served by it while `injected` is active.
"""

from __future__ import annotations

import builtins
import fcntl
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from penstock.errors import StorageError
from penstock.storage import STORAGES, FileInfo, LocalStorage
from penstock.storage.base import list_by_folders, read_ranges_of_open, split_scheme

T = TypeVar("T")

SCHEME = "crash"
#: Calls that change nothing.
LOOKS = frozenset({"read", "open", "map", "list", "stat"})
#: Calls that are atomic: torn, they have done nothing.
WHOLE = frozenset({"delete", "remove_empty", "move_tree"})
_RECORD_BYTES = 320


def calls_to_fail(calls: Sequence[str], fault: Fault) -> list[int]:
    """Return the numbers of the calls at which a fault has an effect of its own."""
    return [at for at, call in enumerate(calls) if fault is not Fault.TORN or call.split()[0] not in WHOLE]


class Crash(BaseException):
    """The process is dead. Not an `Exception`: nothing that cleans up after errors may see it."""


class Fault(str, Enum):
    """What goes wrong with one call."""

    #: The process dies before the call, in the middle of it, after it.
    BEFORE = "before"
    TORN = "torn"
    AFTER = "after"
    #: The call runs twice, as after a lost response. The caller sees the result of the second run.
    TWICE = "twice"
    #: The storage reports an error, before or after the call took effect. The process goes on.
    FAILS = "fails"
    FAILS_AFTER = "fails after"
    #: Ctrl-C is pressed just before the call. The process goes on and may clean up.
    INTERRUPTED = "interrupted"
    #: The process is killed; or the executor that it works for, with all its workers.
    KILLED = "killed"
    EXECUTOR_KILLED = "executor killed"


@dataclass(frozen=True)
class FaultPlan:
    """Which call fails, and how: the n-th, or those whose name and path match. Without either, calls are only counted."""

    folder: str
    at: int | None = None
    fault: Fault = Fault.BEFORE
    match: str | None = None
    #: Count only calls of this process, the driver; or only those of others, the workers.
    only_in: int | None = None
    not_in: int | None = None
    #: Count the calls that only read, instead of those that change something.
    looks: bool = False

    @property
    def calls(self) -> list[str]:
        """The calls so far, each as its name and path."""
        file = Path(self.folder, "calls")
        return [line.strip() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def counts_here(self) -> bool:
        """Whether calls of this process count."""
        return self.only_in in (None, os.getpid()) and self.not_in != os.getpid()

    def is_meant(self, name: str, path: str) -> bool:
        """Count a call. Return whether it fails."""
        number = self._take_number(name, path)
        return number == self.at or (self.match is not None and re.search(self.match, f"{name} {path}") is not None)

    def _take_number(self, name: str, path: str) -> int:
        record = f"{name} {path}"[-_RECORD_BYTES + 1 :].ljust(_RECORD_BYTES - 1) + "\n"
        handle = os.open(f"{self.folder}/calls", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            number = os.fstat(handle).st_size // _RECORD_BYTES
            os.write(handle, record.encode())
        finally:
            os.close(handle)
        return number

    @property
    def is_dead(self) -> bool:
        """Whether the run has crashed."""
        return os.path.exists(f"{self.folder}/dead")

    def die(self) -> Crash:
        """Make every later call fail. Return the error to raise."""
        Path(self.folder, "dead").touch()
        return Crash(self.calls[-1])


@dataclass(frozen=True)
class FaultyStorage:
    """The local file system, with a fault at one call."""

    plan: FaultPlan
    inner: LocalStorage = field(default_factory=LocalStorage)

    def call(self, name: str, path: str, do: Callable[[], T], tear: Callable[[], object] | None = None) -> T:
        """Run one counted call, or the fault of the plan.

        Args:
            tear: does half of the call; None where the storage promises all or nothing.
        """
        plan = self.plan
        self._check_alive()
        if plan.looks is (name not in LOOKS) or not plan.counts_here or not plan.is_meant(name, path):
            return do()
        if plan.fault is Fault.KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        if plan.fault is Fault.EXECUTOR_KILLED:
            _kill_executor()
        if plan.fault is Fault.FAILS:
            raise StorageError(5, "the storage failed", path)
        if plan.fault is Fault.INTERRUPTED:
            raise KeyboardInterrupt
        if plan.fault is Fault.TORN and tear is not None:
            tear()
        if plan.fault in (Fault.BEFORE, Fault.TORN):
            raise plan.die()
        done = do()
        if plan.fault is Fault.AFTER:
            raise plan.die()
        if plan.fault is Fault.FAILS_AFTER:
            raise StorageError(5, "the storage failed", path)
        return do() if plan.fault is Fault.TWICE else done

    def _check_alive(self) -> None:
        if self.plan.is_dead:
            raise Crash("a call after the crash")

    def read(self, path: str) -> bytes:
        return self.call("read", path, lambda: self.inner.read(path))

    def open(self, path: str) -> pa.NativeFile:
        return self.call("open", path, lambda: self.inner.open(path))

    def map(self, path: str) -> pa.NativeFile:
        return self.call("map", path, lambda: self.inner.map(path))

    def list(self, path: str) -> list[FileInfo]:
        return self.call("list", path, lambda: self.inner.list(path))

    def stat(self, path: str) -> FileInfo | None:
        return self.call("stat", path, lambda: self.inner.stat(path))

    def sync(self, paths: Sequence[str]) -> None:
        self._check_alive()  # tests simulate no power failure

    def create(self, path: str) -> pa.NativeFile:
        sink = self.call("create", path, lambda: self.inner.create(path), lambda: self.inner.create(path).close())
        return pa.PythonFile(_Stream(self, path, sink), mode="w")

    def write_new(self, path: str, data: bytes) -> None:
        self.call("write_new", path, lambda: self.inner.write_new(path, data), lambda: _leave_half_a_file(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self.call("replace", path, lambda: self.inner.replace(path, data), lambda: _leave_half_a_file(path, data))

    def delete(self, path: str) -> bool:
        return self.call("delete", path, lambda: self.inner.delete(path))

    def delete_tree(self, path: str) -> None:
        self.call("delete_tree", path, lambda: self.inner.delete_tree(path), lambda: _delete_half(path))

    def remove_empty(self, path: str) -> bool:
        return self.call("remove_empty", path, lambda: self.inner.remove_empty(path))

    def move_tree(self, path: str, to: str) -> None:
        self.call("move_tree", path, lambda: self.inner.move_tree(path, to))

    def make_dirs(self, path: str) -> None:
        above = os.path.dirname(path)
        self.call("make_dirs", path, lambda: self.inner.make_dirs(path), lambda: self.inner.make_dirs(above))

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        return list_by_folders(self, path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        return read_ranges_of_open(self.open(path), ranges)

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def uri(self, path: str) -> str:
        return path


class _Stream:
    """A file being written. Closing it is a call that can fail."""

    def __init__(self, storage: FaultyStorage, path: str, sink: pa.NativeFile) -> None:
        self._storage, self._path, self._sink = storage, path, sink

    @property
    def closed(self) -> bool:
        return bool(self._sink.closed)

    def write(self, data: Any) -> int:
        if self._storage.plan.is_dead:
            raise Crash("a write after the crash")
        return int(self._sink.write(data) or len(data))

    def tell(self) -> int:
        return int(self._sink.tell())

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        if not self.closed:
            self._storage.call("close", self._path, self._sink.close, self._cut)

    def _cut(self) -> None:
        self._sink.close()
        os.truncate(self._path, os.path.getsize(self._path) // 2)


def _leave_half_a_file(path: str, data: bytes) -> None:
    """Leave what the local storage leaves when it dies before the rename: half a file under a temporary name."""
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    Path(folder, f".{name}.half.tmp").write_bytes(data[: len(data) // 2])


def _delete_half(path: str) -> None:
    """Delete every second entry of the folder."""
    for entry in sorted(Path(path).iterdir())[::2] if os.path.isdir(path) else []:
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _kill_executor() -> None:
    """Kill the executor that this worker belongs to, and then the worker, as happens when a machine is lost."""
    process = os.getpid()
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(re.findall(r"^PPid:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)[0])
        if process <= 1:
            raise AssertionError("this worker has no executor with a process of its own")
    os.kill(process, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def injected(plan: FaultPlan) -> Iterator[None]:
    """Serve paths with the scheme `crash:` by the faulty storage while the block runs."""
    Path(plan.folder).mkdir(parents=True, exist_ok=True)
    STORAGES[SCHEME] = lambda path: (FaultyStorage(plan), os.path.abspath(split_scheme(path)[1]))
    try:
        yield
    finally:
        del STORAGES[SCHEME]

"""A storage that fails at its n-th call, in every way a call can fail: for tests of what a table is like afterwards.

It wraps the local file system. Calls are counted in a file, so that the driver, its threads and Spark's workers share one
count. Calls that change something are counted, and the closing of a stream is one of them; or, by the plan, those that only
look. A process that crashed does nothing any more: every later call of the same run raises `Crash` as well.

Paths reach it by the scheme `crash:` while `injected` is active.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from penstock.errors import StorageError
from penstock.storage import STORAGES, FileInfo, LocalStorage
from penstock.storage.base import split_scheme

T = TypeVar("T")

SCHEME = "crash"
#: Calls that change nothing.
LOOKS = frozenset({"read", "open", "map", "list", "stat"})
#: Calls that are done or not: torn, they are as before.
WHOLE = frozenset({"delete", "remove_empty", "move_tree"})
_RECORD_BYTES = 320


def calls_to_fail(calls: Sequence[str], fault: Fault) -> list[int]:
    """The numbers of the calls at which a fault leaves what no other fault leaves."""
    return [at for at, call in enumerate(calls) if fault is not Fault.TORN or call.split()[0] not in WHOLE]


class Crash(BaseException):
    """The process is dead. Not an `Exception`: nothing that cleans up after errors may see it."""


class Fault(str, Enum):
    """What goes wrong with one call."""

    #: Dead before the call, in the middle of it, after it.
    BEFORE = "before"
    TORN = "torn"
    AFTER = "after"
    #: The call is done twice, as after a lost answer; the caller sees how the second one ended.
    TWICE = "twice"
    #: The storage reports an error, without or after having done what was asked; the process lives on.
    FAILS = "fails"
    FAILS_AFTER = "fails after"
    #: Somebody presses Ctrl-C just before the call. The process lives on and may tidy up.
    INTERRUPTED = "interrupted"
    #: The process is really dead; or the executor that it works for is, and all its workers with it.
    KILLED = "killed"
    EXECUTOR_KILLED = "executor killed"


@dataclass(frozen=True)
class FaultPlan:
    """Which call fails, and how: the n-th, or those whose name and path match. Without either calls are only counted."""

    folder: str
    at: int | None = None
    fault: Fault = Fault.BEFORE
    match: str | None = None
    #: Count only calls of this process, the driver; or only those of others, the workers.
    only_in: int | None = None
    not_in: int | None = None
    #: Count the calls that only look, instead of those that change something.
    looks: bool = False

    @property
    def calls(self) -> list[str]:
        """The calls so far, each as its name and the path."""
        file = Path(self.folder, "calls")
        return [line.strip() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def counts_here(self) -> bool:
        """Whether calls of this process count."""
        return self.only_in in (None, os.getpid()) and self.not_in != os.getpid()

    def is_meant(self, name: str, path: str) -> bool:
        """Count a call; whether it is one that fails."""
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
        """From now on every call fails."""
        Path(self.folder, "dead").touch()
        return Crash(self.calls[-1])


@dataclass(frozen=True)
class FaultyStorage:
    """The local file system, with one call that goes wrong."""

    plan: FaultPlan
    inner: LocalStorage = field(default_factory=LocalStorage)

    def call(self, name: str, path: str, do: Callable[[], T], tear: Callable[[], object] | None = None) -> T:
        """Do one counted call, or what the plan says instead.

        Args:
            tear: leaves the call half done; None where the storage promises all or nothing.
        """
        plan = self.plan
        self._live()
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

    def _live(self) -> None:
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
        self._live()  # nothing here survives or is lost in a power failure

    def create(self, path: str) -> pa.NativeFile:
        sink = self.call("create", path, lambda: self.inner.create(path), lambda: self.inner.create(path).close())
        return pa.PythonFile(_Stream(self, path, sink), mode="w")

    def write_new(self, path: str, data: bytes) -> None:
        self.call("write_new", path, lambda: self.inner.write_new(path, data), lambda: _half_published(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self.call("replace", path, lambda: self.inner.replace(path, data), lambda: _half_published(path, data))

    def delete(self, path: str) -> bool:
        return self.call("delete", path, lambda: self.inner.delete(path))

    def delete_tree(self, path: str) -> None:
        self.call("delete_tree", path, lambda: self.inner.delete_tree(path), lambda: _half_deleted(path))

    def remove_empty(self, path: str) -> bool:
        return self.call("remove_empty", path, lambda: self.inner.remove_empty(path))

    def move_tree(self, path: str, to: str) -> None:
        self.call("move_tree", path, lambda: self.inner.move_tree(path, to))

    def make_dirs(self, path: str) -> None:
        above = os.path.dirname(path)
        self.call("make_dirs", path, lambda: self.inner.make_dirs(path), lambda: self.inner.make_dirs(above))


class _Stream:
    """A file being written; closing it is a call that can fail."""

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


def _half_published(path: str, data: bytes) -> None:
    """What the local storage leaves when it dies before the rename: half a file under a temporary name."""
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    Path(folder, f".{name}.half.tmp").write_bytes(data[: len(data) // 2])


def _half_deleted(path: str) -> None:
    """Every second entry of the folder is gone."""
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
    """While active, paths that begin with `crash:` are served by the faulty storage."""
    Path(plan.folder).mkdir(parents=True, exist_ok=True)
    STORAGES[SCHEME] = lambda path: (FaultyStorage(plan), os.path.abspath(split_scheme(path)[1]))
    try:
        yield
    finally:
        del STORAGES[SCHEME]

"""A process that acquires and releases locks when it is asked to; and what describes a lock to it.

Requests are lines on standard input, answers are lines of JSON on standard output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.commit.locks import LockContext, LockProvider, make_lock
from penstock.commit.locks.file_system import FileSystemLock
from penstock.options import Options
from penstock.storage import open_storage

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class LockSpec:
    """What a process needs to make a lock."""

    path: str
    options: dict[str, str] = field(default_factory=dict)
    #: Seconds after which a lock file is abandoned. The option has minutes.
    expire_s: float | None = None

    def make(self, **more: str) -> LockProvider:
        """Make the lock, with more options."""
        storage, path = open_storage(self.path)
        context = LockContext(path, "trips", Options({**self.options, **more}), storage)
        if self.expire_s is not None:
            return FileSystemLock(context, self.expire_s)
        return make_lock(context)


class LockProcess:
    """Another process with a lock of its own."""

    def __init__(self, spec: LockSpec) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.lock_process", json.dumps(asdict(spec))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._is_ready = False

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, *request: Any) -> Any:
        """Send a request and return its answer."""
        self.send(*request)
        return self.answer()

    def send(self, *request: Any) -> None:
        """Send a request without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the answer to a request that was sent."""
        if not self._is_ready:  # asked for late, so that several processes can start at once
            assert self._read() == "ready"
            self._is_ready = True
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process has ended")
        return json.loads(line)

    def pause(self) -> None:
        """Stop the process in the middle of its work."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process continue."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process, without any last words."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


def increment(lock: LockProvider, counter: Path, times: int) -> None:
    """Add 1 to the number in a file several times, each time under the lock. Without a lock additions would be lost."""
    for _ in range(times):
        if not lock.acquire(60):
            raise RuntimeError("the lock was not acquired in a minute")
        try:
            number = int(counter.read_text())
            os.sched_yield()
            counter.write_text(str(number + 1))
        finally:
            lock.release()


def respond(lock: LockProvider, request: list[Any]) -> Any:
    """Do what a request says, and return the answer."""
    verb, *arguments = request
    if verb == "acquire":
        return lock.acquire(arguments[0], "20260101000000000")
    if verb == "is_held":
        return lock.is_held()
    if verb == "release":
        lock.release()
        return lock.is_held()
    if verb == "increment":
        increment(lock, Path(arguments[0]), arguments[1])
        return "done"
    raise ValueError(verb)


def main() -> None:
    """Make the lock that the argument describes, then answer requests until standard input ends."""
    lock = LockSpec(**json.loads(sys.argv[1])).make()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(respond(lock, json.loads(line))), flush=True)
    lock.close()


if __name__ == "__main__":
    main()

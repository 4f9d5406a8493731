"""The port of locks: `LockProvider`, the base class of every lock; `LockHolder`, who holds a lock; `LockContext`, the table.

A lock excludes other processes through a server or a file. A lock object belongs to one process and one table, and may be shared
by threads: they exclude each other in the order in which they came. `tests/contract/test_locks.py` checks every lock against the
promises of `LockProvider`.

A new lock is one module with a class below `LockProvider`, and one line in `LOCKS` (`options/lock_names.py`).

A lock is never released on behalf of another holder: every acquisition has an id of its own (`LockHolder.owner`), and only the
file, node or entry with this id is removed.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, ClassVar

from penstock import clock
from penstock.options import Options
from penstock.process import Process, has_ended, this_process
from penstock.storage import Storage
from penstock.user_warning import warn_user


@dataclass(frozen=True)
class LockContext:
    """The table that a lock belongs to. A lock is made from it."""

    #: The folder of the table, as the methods of `storage` take it.
    base_path: str
    table_name: str
    options: Options
    storage: Storage
    database: str | None = None


@dataclass(frozen=True)
class LockHolder:
    """The holder of a lock. Real Hudi stores less about a holder than Penstock does, so only `owner` is always set."""

    #: The id of the acquisition, different each time; for a holder of Hudi, the name that the server or file has.
    owner: str
    host: str = ""
    pid: int | None = None
    #: The start of the process in clock ticks since the machine's boot, which tells processes with the same pid apart.
    process_started: str = ""
    #: The instant that is being published; empty if unknown.
    instant: str = ""
    #: When the lock was acquired, in milliseconds since 1970; None if unknown.
    since_ms: int | None = None
    #: What tells machines and containers apart, see `penstock.process.Process`.
    machine: str = ""

    @classmethod
    def of_this_process(cls, instant: str) -> LockHolder:
        """Return a new holder: this process, now, with an id that no other acquisition has."""
        process = this_process()
        return cls(clock.new_uuid(), process.host, process.pid, process.started, instant, clock.now_ms(), machine=process.machine)

    def encode(self) -> bytes:
        """Return the holder as JSON, for files, nodes and entries."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, content: bytes) -> LockHolder | None:
        """Return the holder that `encode` wrote; None if the content is of another origin."""
        try:
            values: dict[str, Any] = json.loads(content)
            return cls(**{name: values[name] for name in cls.__dataclass_fields__})
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def is_gone(self) -> bool:
        """Whether the process of the holder is known to have ended. Always False for a process of another machine."""
        if self.pid is None or not self.machine:
            return False
        return has_ended(Process(self.host, self.machine, self.pid, self.process_started))

    @property
    def since(self) -> datetime | None:
        """When the holder acquired the lock or began to acquire it, in UTC; None if unknown."""
        return None if self.since_ms is None else datetime.fromtimestamp(self.since_ms / 1000, timezone.utc)

    def describe(self) -> str:
        """Return a few words about the holder, for messages."""
        words = f"process {self.pid} on {self.host}" if self.pid is not None else self.owner
        if self.since is not None:
            words += f" since {self.since.isoformat(timespec='seconds')}"
        if self.instant:
            words += f" for instant {self.instant}"
        return f"{words} (this process has ended)" if self.is_gone else words


class Turns:
    """A queue of the threads of one process: they take turns in the order in which they came. Owner ids identify them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[str] = deque()

    @property
    def current(self) -> str | None:
        """The owner whose turn it is; None if no thread wants the lock."""
        with self._changed:
            return self._queue[0] if self._queue else None

    def take(self, owner: str, timeout_s: float) -> bool:
        """Wait until it is the owner's turn, and return True. Return False if that takes longer than `timeout_s`.

        The caller must call `leave` afterwards in either case.
        """
        with self._changed:
            self._queue.append(owner)
            return self._changed.wait_for(lambda: not self._queue or self._queue[0] == owner, timeout_s)

    def leave(self, owner: str) -> None:
        """Remove the owner from the queue, whether it has its turn or waits. Does nothing if the owner is not in the queue."""
        with self._changed:
            if owner in self._queue:
                self._queue.remove(owner)
                self._changed.notify_all()


class LockProvider(ABC):
    """The lock of a table. A subclass implements `_take`, `_drop` and `_is_mine`; this class calls them in the right order.

    `release` is idempotent, and harmless if the lock was lost to another holder or never acquired. It releases only what its own
    thread has acquired. All other methods may be called by any thread.

    Attributes:
        name: the value of `penstock.lock`.
        wait_option: the option that makes a writer wait longer, for messages.
    """

    name: ClassVar[str]

    def __init__(self, context: LockContext) -> None:
        self.context = context
        self._turns = Turns()
        self._mine: LockHolder | None = None
        self._thread: int | None = None

    # -- for subclasses to define ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the lock is, for messages: `file /trips/.hoodie/lock`, `ZooKeeper node /hudi/trips`."""

    @abstractmethod
    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        """Acquire the lock for the holder `mine`, and return True. Return False if another holder still has it at the deadline.

        At least one attempt is made, even if the deadline has passed.

        Args:
            deadline_s: the value of `clock.elapsed_s()` at which to stop waiting.
        """

    @abstractmethod
    def _drop(self, mine: LockHolder) -> None:
        """Release the lock of the holder `mine`; if `mine` still waits for the lock, withdraw its request.

        Also called if it is not known whether `mine` has acquired the lock.
        """

    @abstractmethod
    def _is_mine(self, mine: LockHolder) -> bool:
        """Ask the server, or read the file, whether the holder `mine` has the lock at this moment."""

    @abstractmethod
    def holder(self) -> LockHolder | None:
        """Return who holds the lock; None if it is free. A holder whose process has ended is returned too."""

    @abstractmethod
    def break_lock(self) -> LockHolder | None:
        """Take the lock away from its holder; return that holder, or None if the lock was free.

        To be called only if the holder is dead. A holder that is alive notices the loss when it checks `is_held`.
        """

    def check(self) -> None:  # noqa: B027
        """Raise an error if the lock cannot work, for example because its server does not answer. The lock is not acquired."""

    def check_store(self) -> None:  # noqa: B027
        """Raise Unsupported if the lock lies on a store that ignores conditional puts. Locks elsewhere always pass.

        Called before every write and table service. The answer of a store is remembered.
        """

    def renew(self) -> bool:
        """Prolong the lease of the lock now; return whether the lock is still held.

        A thread renews the lease at regular intervals anyway. A lock without a lease is only checked.
        """
        return self.is_held()

    @property
    def fencing_number(self) -> int | None:
        """The fencing number of the current acquisition: greater than that of every earlier one.

        None if this process does not hold the lock, or if this kind of lock has no fencing numbers.
        """
        return None

    def close(self) -> None:
        """Release the lock if any thread holds it, and end connections. The lock can be acquired again afterwards."""
        mine = self._mine
        if mine is not None:
            self._leave(mine)

    # -- for callers -------------------------------------------------------------------------------------------------------

    def acquire(self, timeout_s: float, instant: str = "") -> bool:
        """Acquire the lock; return whether it was acquired. False: another holder had it until the timeout.

        If this call returns False or ends with an error, also Ctrl-C, the lock is not held and no request for it remains.

        Args:
            timeout_s: how many seconds to wait.
            instant: the instant that will be published. `holder` shows it to other processes.

        Raises:
            RuntimeError: this thread holds the lock already.
            StorageError: the server or storage failed.
        """
        if self._thread == threading.get_ident():
            raise RuntimeError(f"this thread holds {self.place} already: release it first")
        deadline_s = clock.elapsed_s() + timeout_s
        mine = LockHolder.of_this_process(instant)
        is_mine = False
        try:
            if self._turns.take(mine.owner, timeout_s):
                self._mine = mine
                self._thread = threading.get_ident()
                is_mine = self._take(mine, deadline_s)
        finally:
            if not is_mine:
                self._leave(mine)
        return is_mine

    def release(self) -> None:
        """Release the lock, if this thread holds it. The lock of another thread stays: that thread is still at work.

        A failure is a warning, not an error: what was done under the lock is done, and the lock expires or can be broken.
        """
        mine = self._mine
        if mine is not None and self._thread == threading.get_ident():
            self._leave(mine)

    def is_held(self) -> bool:
        """Whether this object holds the lock at this moment. The server or file is asked; if it does not answer, False.

        Called before a commit is published: a process that was stopped for longer than its lease has lost the lock.
        """
        mine = self._mine
        if mine is None:
            return False
        try:
            return self._is_mine(mine)
        except Exception:  # errors of servers and networks have many classes; without an answer the lock is not sure
            return False

    def _leave(self, mine: LockHolder) -> None:
        """Release the lock of the holder `mine` if this object has it, then let the next waiting thread take its turn."""
        try:
            if self._mine is mine:
                self._drop(mine)
        except Exception as e:  # the caller's work is done or has failed for a reason of its own
            warn_user(f"{self.place} could not be released ({type(e).__name__}: {e}); it expires, or break it")
        finally:
            if self._mine is mine:
                self._mine = None
                self._thread = None
            self._turns.leave(mine.owner)

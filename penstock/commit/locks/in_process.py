"""The lock `in_process`: writers in threads of one process exclude each other. Other processes are not excluded."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from penstock import clock
from penstock.commit.locks.lock import LockContext, LockHolder, LockProvider, Turns


@dataclass
class _Slot:
    """The lock of one table in this process: the queue of threads that want it, and a `LockHolder` per owner id."""

    turns: Turns = field(default_factory=Turns)
    holders: dict[str, LockHolder] = field(default_factory=dict)


_SLOTS: dict[tuple[str, str], _Slot] = {}
_SLOTS_LOCK = threading.Lock()


class InProcessLock(LockProvider):
    """A lock among the threads of this process. Threads get it in the order in which they asked for it."""

    name = "in_process"

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        with _SLOTS_LOCK:
            self._slot = _SLOTS.setdefault((repr(context.storage), context.base_path.rstrip("/")), _Slot())

    @property
    def place(self) -> str:
        """A text for messages that names the path of the table."""
        return f"lock of {self.context.base_path} in this process"

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        self._slot.holders[mine.owner] = mine
        return self._slot.turns.take(mine.owner, max(0.0, deadline_s - clock.elapsed_s()))

    def _drop(self, mine: LockHolder) -> None:
        self._slot.turns.leave(mine.owner)
        self._slot.holders.pop(mine.owner, None)

    def _is_mine(self, mine: LockHolder) -> bool:
        return self._slot.turns.current == mine.owner

    def holder(self) -> LockHolder | None:
        """Return the holder of the lock: this process, with the instant of the thread that holds it and the time of its request.

        Return None if the lock is free.
        """
        owner = self._slot.turns.current
        return None if owner is None else self._slot.holders.get(owner)

    def break_lock(self) -> LockHolder | None:
        """Take the lock from the thread that holds it, and return this holder; None if the lock was free.

        The thread that has waited longest acquires the lock next.
        """
        holder = self.holder()
        if holder is not None:
            self._slot.turns.leave(holder.owner)
        return holder

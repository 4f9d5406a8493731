"""Heartbeats: a running writer's sign of life, under the lazy policy for failed writes.

An empty file `.hoodie/.heartbeat/<instant>` is written again and again; its modification time is the heartbeat. Whoever
finds it too old may take the write for dead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import clock
from penstock import options as o
from penstock.errors import CommitUnknown
from penstock.storage import Storage, join
from penstock.table import TableState
from penstock.timeline.store import FOLDER


def heartbeat_path(base_path: str, instant: str) -> str:
    """Where a writer's heartbeat is."""
    return join(base_path, FOLDER, ".heartbeat", instant)


@contextmanager
def beating(table: TableState, instant: str) -> Iterator[None]:
    """Give signs of life while the block runs, if the policy for failed writes asks for them."""
    if table.options[o.FAILED_WRITES_POLICY].upper() != "LAZY":
        yield
        return
    done = threading.Event()
    every_s = table.options[o.HEARTBEAT_INTERVAL_MS] / 1000
    path = heartbeat_path(table.base_path, instant)

    def beat() -> None:
        while not done.is_set():
            table.storage.replace(path, b"")
            done.wait(every_s)

    table.storage.replace(path, b"")
    thread = threading.Thread(target=beat, daemon=True, name=f"heartbeat-{instant}")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=every_s)


def is_alive(table: TableState, instant: str) -> bool:
    """Whether a writer's last sign of life is recent enough; one that never gave any is dead."""
    found = table.storage.stat(heartbeat_path(table.base_path, instant))
    allowed = table.options[o.HEARTBEAT_INTERVAL_MS] * table.options[o.HEARTBEAT_TOLERABLE_MISSES]
    return found is not None and clock.now_ms() - found.modified_ms <= allowed


def check_alive(table: TableState, instant: str) -> None:
    """Refuse to publish a write that others may already have taken for dead."""
    if table.options[o.FAILED_WRITES_POLICY].upper() == "LAZY" and not is_alive(table, instant):
        raise CommitUnknown(f"Heartbeat for instant {instant} has expired: another writer may be undoing it. Run the write again")


def stop_heartbeat(storage: Storage, base_path: str, instant: str) -> None:
    """Forget a writer that has finished, or that was undone."""
    storage.delete(heartbeat_path(base_path, instant))

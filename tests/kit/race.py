"""Processes that race for the same files. The module imports little, because every process imports it."""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.pool import Pool
from typing import Any

from penstock.errors import AlreadyExists
from penstock.storage import open_storage

_barrier: list[Any] = []


def start_racers(count: int) -> Pool:
    """Return a pool of processes that are started afresh, not forked, and that know a barrier."""
    context = get_context("spawn")
    return context.Pool(count, _remember, (context.Barrier(count),))


def _remember(barrier: Any) -> None:
    _barrier[:] = [barrier]


def race(path: str, settings: dict[str, str], files: int, number: int) -> list[int]:
    """Wait for the others, then create the files 0, 1, … below a path. Return those that this process was the first to create."""
    storage, base = open_storage(path, settings)
    storage.stat(base)  # connects before the start
    won = []
    for file in range(files):
        _barrier[0].wait(60)
        try:
            storage.write_new(f"{base}/{file}", str(number).encode())
        except AlreadyExists:
            continue
        won.append(file)
    return won

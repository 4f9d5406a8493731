"""A storage that lets two writers take turns, call by call, so that a test can force every order of their calls.

Paths with the scheme `first:` and `second:` are served by it while `taking_turns` is active. The first writer makes some calls, then
the second makes some calls, then the first runs to its end, then the second.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest.mock import patch

import pyarrow as pa

from penstock.storage import STORAGES, FileInfo, LocalStorage
from penstock.storage.base import list_by_folders, read_ranges_of_open, split_scheme

T = TypeVar("T")

WRITERS = ("first", "second")
_WAIT_S = 60


class Turns:
    """Whose turn it is. A call waits until it is the turn of its writer."""

    def __init__(self, calls_of_first: int | str, calls_of_second: int) -> None:
        #: The stretches that are left: the writer and how many calls it makes; a text: up to the first call that ends with it;
        #: None: all that it has left.
        self._stretches: list[tuple[str, int | str | None]] = [
            ("first", calls_of_first),
            ("second", calls_of_second),
            ("first", None),
            ("second", None),
        ]
        self._finished: set[str] = set()
        self._changed = threading.Condition()
        self.calls: dict[str, list[str]] = {name: [] for name in WRITERS}

    def take(self, writer: str, call: str) -> None:
        """Wait for the writer's turn and count the call."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._current() == writer, _WAIT_S):
                raise AssertionError(f"{writer} waited for its turn in vain, at {call}")
            self.calls[writer].append(call)
            name, left = self._stretches[0]
            if isinstance(left, int):
                self._stretches[0] = (name, left - 1)
            elif isinstance(left, str) and call.endswith(left):
                self._stretches[0] = (name, 0)
            self._changed.notify_all()

    def finish(self, writer: str) -> None:
        """Take the writer out of the turns: it makes no more calls."""
        with self._changed:
            self._finished.add(writer)
            self._changed.notify_all()

    def _current(self) -> str | None:
        while self._stretches and (self._stretches[0][0] in self._finished or self._stretches[0][1] == 0):
            self._stretches.pop(0)
        return self._stretches[0][0] if self._stretches else None


@dataclass(frozen=True)
class TurnStorage:
    """The local file system for one of the writers."""

    writer: str
    turns: Turns = field(compare=False)
    inner: LocalStorage = field(default_factory=LocalStorage)

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self.inner, name)
        if not callable(method):
            return method

        def call(path: Any, *args: Any) -> Any:
            self.turns.take(self.writer, f"{name} {path}")
            return method(path, *args)

        return call

    def list(self, path: str) -> list[FileInfo]:
        self.turns.take(self.writer, f"list {path}")
        return self.inner.list(path)

    def open(self, path: str) -> pa.NativeFile:
        self.turns.take(self.writer, f"open {path}")
        return self.inner.open(path)

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        return list_by_folders(self, path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        return read_ranges_of_open(self.open(path), ranges)

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def uri(self, path: str) -> str:
        return path


@contextmanager
def taking_turns(turns: Turns) -> Iterator[None]:
    """Serve the schemes of both writers with storages that take turns."""

    def open_for(writer: str) -> Callable[[str], tuple[Any, str]]:
        return lambda path: (TurnStorage(writer, turns), split_scheme(path)[1])

    with patch.dict(STORAGES, {writer: open_for(writer) for writer in WRITERS}):
        yield


def run_both(turns: Turns, first: Callable[[], None], second: Callable[[], None]) -> dict[str, BaseException | None]:
    """Run both writers on threads, in turns. Return the error of each, or None."""
    errors: dict[str, BaseException | None] = dict.fromkeys(WRITERS)

    def run(writer: str, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as e:  # the test looks at it
            errors[writer] = e
        finally:
            turns.finish(writer)

    with taking_turns(turns):
        threads = [threading.Thread(target=run, args=pair) for pair in zip(WRITERS, (first, second), strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return errors

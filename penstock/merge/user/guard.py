"""Functions of the user's own are called here: what they raise becomes an error of ours, and one that never returns is given up.

An error names the function, a key, and shows the user's own part of the traceback, or where the function is if it was given up.
The time limit holds for one call of the function. The function runs on a thread of its own, which is told to end when its time
is over; one that waits outside Python stays behind, and ends with its process.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from penstock.errors import PayloadError
from penstock.merge.kernels.gather import find_column

T = TypeVar("T")

TIMEOUT_OPTION = "penstock.payload.timeout"
_HERE = os.path.dirname(__file__)


@dataclass
class Steps:
    """How far a function has come that is called for one row after another."""

    #: The row that it is at.
    at: int = 0


@dataclass(frozen=True)
class Guard:
    """What is known about a function when it fails."""

    #: Its kind and name, for messages.
    what: str
    #: Columns that make the record key and the partition path, which rows may not change; fields of structs as `a.b`.
    fixed: tuple[str, ...] = ()
    #: Seconds that one call may take; 0: no limit.
    timeout_s: float = 0.0

    def run(self, work: Callable[[Steps], T], rows: pa.Table) -> T:
        """What `work` gives back.

        Args:
            rows: what it works on, to name the key of the row that it is at.

        Raises:
            PayloadError: it raised something, or was at one row for longer than the limit.
        """
        steps = Steps()
        result = _Result[T](work, steps)
        if not self.timeout_s:
            result.run()
        else:
            self._run_within_limit(result, steps, rows)
        if result.error is None:
            return result.values[0]
        if isinstance(result.error, PayloadError):
            raise result.error
        kind = type(result.error).__name__
        raise self.failed(f"raised {kind}", rows, steps.at, _traceback(result.error)) from result.error

    def failed(self, problem: str, rows: pa.Table, at: int, more: str = "") -> PayloadError:
        """The error to raise about a row."""
        where = f" for key {self.key_of(rows, at)}" if rows.num_rows else ""
        return PayloadError(f"{self.what} {problem}{where}" + (f"\n{more}" if more else ""))

    def key_of(self, rows: pa.Table, at: int) -> str:
        """The key of a row, as its columns say it."""
        found = {name: find_column(rows.slice(at, 1), name) for name in self.fixed}
        return ", ".join(f"{name}={values[0].as_py()!r}" for name, values in found.items() if values is not None) or f"(row {at})"

    def _run_within_limit(self, result: _Result[T], steps: Steps, rows: pa.Table) -> None:
        thread = threading.Thread(target=result.run, name=f"penstock {self.what}", daemon=True)
        thread.start()
        last = steps.at
        thread.join(self.timeout_s)
        while thread.is_alive():
            if steps.at == last:
                where = _stack(thread)
                _interrupt(thread)
                said = f"did not return within {self.timeout_s:g} seconds ({TIMEOUT_OPTION} is the limit of one call)"
                raise self.failed(said, rows, last, where)
            last = steps.at
            thread.join(self.timeout_s)


class _Result(Generic[T]):
    """What a piece of work comes to: a value or an error."""

    def __init__(self, work: Callable[[Steps], T], steps: Steps) -> None:
        self._work, self._steps = work, steps
        self.values: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.values.append(self._work(self._steps))
        except BaseException as e:  # a function that exits must not end a worker
            self.error = e


def _interrupt(thread: threading.Thread) -> None:
    """Let a thread exit as soon as it runs Python again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _stack(thread: threading.Thread) -> str:
    """Where the user's code is on a thread that still runs."""
    frame = sys._current_frames().get(thread.ident or 0)
    ours = (_HERE, threading.__file__)
    frames = [f for f in traceback.extract_stack(frame) if not f.filename.startswith(ours)] if frame else []
    return "".join(["It is here (most recent call last):\n", *traceback.format_list(frames)]).rstrip() if frames else ""


def _traceback(error: BaseException) -> str:
    """The traceback from where the user's code begins."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_HERE)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    return "".join([*lines, *traceback.format_exception_only(type(error), error)]).rstrip()

"""`Guard` calls a user's function: what the function raises becomes a PayloadError, and a call that never returns is abandoned.

The error names the function and a key, and shows the user's part of the traceback, or the line where the function is if its call
was abandoned. The time limit is that of one call of the function. With a limit, the function runs on a thread of its own, which
is interrupted when the time is over. A thread that waits outside Python cannot be interrupted; it ends with its process.
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
#: The folder whose frames are left out of tracebacks.
_THIS_FOLDER = os.path.dirname(__file__)


@dataclass
class CallProgress:
    """The row that a function is at, if it is called for one row after another. Written by the thread that calls it."""

    at: int = 0


@dataclass(frozen=True)
class Guard:
    """Calls a user's function, and words its errors."""

    #: The kind and name of the function, for messages.
    what: str
    #: The columns of the record key and the partition path, which rows may not change; fields of structs as `a.b`.
    fixed: tuple[str, ...] = ()
    #: Seconds that one call may take; 0: no limit.
    timeout_s: float = 0.0

    def call(self, work: Callable[[CallProgress], T], rows: pa.Table) -> T:
        """Call `work`, which calls the function, and return its result.

        Args:
            rows: the rows that it works on, to name the key of the row that it is at.

        Raises:
            PayloadError: it raised an exception, or was at one row for longer than the limit.
        """
        progress = CallProgress()
        outcome = _Outcome[T](work, progress)
        if self.timeout_s:
            self._run_with_limit(outcome, progress, rows)
        else:
            outcome.run()
        if outcome.error is None:
            return outcome.values[0]
        if isinstance(outcome.error, PayloadError):
            raise outcome.error
        kind = type(outcome.error).__name__
        raise self.make_error(f"raised {kind}", rows, progress.at, _format_traceback(outcome.error)) from outcome.error

    def make_error(self, problem: str, rows: pa.Table, at: int, more: str = "") -> PayloadError:
        """Return the error about a row."""
        where = f" for key {self._describe_key(rows, at)}" if rows.num_rows else ""
        return PayloadError(f"{self.what} {problem}{where}" + (f"\n{more}" if more else ""))

    def _describe_key(self, rows: pa.Table, at: int) -> str:
        row = rows.slice(at, 1)
        parts = []
        for name in self.fixed:
            values = find_column(row, name)
            if values is not None:
                parts.append(f"{name}={values[0].as_py()!r}")
        return ", ".join(parts) or f"(row {at})"

    def _run_with_limit(self, outcome: _Outcome[T], progress: CallProgress, rows: pa.Table) -> None:
        thread = threading.Thread(target=outcome.run, name=f"penstock {self.what}", daemon=True)
        thread.start()
        last = progress.at
        thread.join(self.timeout_s)
        while thread.is_alive():
            # The limit is that of one call: a function that has moved on to another row gets the same time again.
            if progress.at == last:
                where = _format_stack(thread)
                _interrupt(thread)
                problem = f"did not return within {self.timeout_s:g} seconds ({TIMEOUT_OPTION} is the limit of one call)"
                raise self.make_error(problem, rows, last, where)
            last = progress.at
            thread.join(self.timeout_s)


class _Outcome(Generic[T]):
    """What a call came to: a value or an error."""

    def __init__(self, work: Callable[[CallProgress], T], progress: CallProgress) -> None:
        self._work = work
        self._progress = progress
        self.values: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do the work, and keep its value or its error."""
        try:
            self.values.append(self._work(self._progress))
        except BaseException as e:  # also SystemExit: a function that exits must not end a worker
            self.error = e


def _interrupt(thread: threading.Thread) -> None:
    """Let a thread exit as soon as it runs Python code again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _format_stack(thread: threading.Thread) -> str:
    """Return the user's part of the stack of a thread that still runs."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return ""
    frames = [f for f in traceback.extract_stack(frame) if not f.filename.startswith((_THIS_FOLDER, threading.__file__))]
    if not frames:
        return ""
    return "".join(["It is here (most recent call last):\n", *traceback.format_list(frames)]).rstrip()


def _format_traceback(error: BaseException) -> str:
    """Return the traceback from where the user's code begins."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_THIS_FOLDER)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    return "".join([*lines, *traceback.format_exception_only(type(error), error)]).rstrip()

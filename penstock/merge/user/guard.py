"""`Guard` calls a user's merge function. It turns exceptions into PayloadError, and abandons a call that exceeds the time limit.

The error names the function and a record key. It shows the user's part of the traceback, or of an abandoned call the line that
is being executed. The time limit is that of one call of the function. With a limit, the function runs on a thread of its own,
which is interrupted when the time is over. A thread that waits outside Python cannot be interrupted; it ends with its process.
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
    """The position of the row for which the user's function is being called, if the function is called row by row.

    The thread that calls the function writes the position; the thread that watches the time limit reads it.
    """

    at: int = 0


@dataclass(frozen=True)
class Guard:
    """Calls a user's merge function under a time limit, and turns its errors into PayloadError.

    The errors name the function and a record key.
    """

    #: The kind and name of the function, for messages.
    what: str
    #: The columns of the record key and the partition path, which rows may not change; fields of structs as `a.b`.
    fixed: tuple[str, ...] = ()
    #: Seconds that one call may take; 0: no limit.
    timeout_s: float = 0.0

    def call(self, work: Callable[[CallProgress], T], rows: pa.Table) -> T:
        """Call `work`, which calls the user's function, and return the result of `work`.

        Args:
            work: calls the user's function, for one row after another or once for all rows. It is called with a `CallProgress`
                and stores in it the position of the current row.
            rows: the rows that the user's function merges; an error names the key of the current row.

        Raises:
            PayloadError: `work` raised an exception, or one call of the function took longer than `timeout_s`.
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
        """Return a PayloadError about a row, which names the user's function and the key of the row.

        Args:
            problem: what the function did, as a verb phrase such as "raised KeyError".
            at: the position of the row in `rows`.
            more: a second paragraph, such as a traceback or a fix.
        """
        where = f" for key {self._describe_key(rows, at)}" if rows.num_rows else ""
        return PayloadError(f"{self.what} {problem}{where}" + (f"\n{more}" if more else ""))

    def _describe_key(self, rows: pa.Table, at: int) -> str:
        """Return the key and partition columns of row `at` as text (`name=value, …`); `(row 5)` if the columns are not known."""
        row = rows.slice(at, 1)
        parts = []
        for name in self.fixed:
            values = find_column(row, name)
            if values is not None:
                parts.append(f"{name}={values[0].as_py()!r}")
        return ", ".join(parts) or f"(row {at})"

    def _run_with_limit(self, outcome: _Outcome[T], progress: CallProgress, rows: pa.Table) -> None:
        """Call the user's function on a thread of its own. Raise PayloadError if one call takes longer than `timeout_s`.

        Args:
            outcome: runs the call, and stores its result or its exception.
            progress: the position of the current row, which the call updates.
            rows: the rows that the function merges, to name in an error the key of the current row.
        """
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
    """One call of the function `work`, which may run on another thread, and how it ended.

    The list `values` holds the result of `work`, or `error` the exception that it raised.
    """

    def __init__(self, work: Callable[[CallProgress], T], progress: CallProgress) -> None:
        self._work = work
        self._progress = progress
        self.values: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call `work`, and store its value in `values` or its exception in `error`."""
        try:
            self.values.append(self._work(self._progress))
        except BaseException as e:  # also SystemExit: a function that exits must not end a worker
            self.error = e


def _interrupt(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread, as soon as the thread runs Python code again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _format_stack(thread: threading.Thread) -> str:
    """Return the stack of a thread that still runs, without the frames of this package; empty if the thread has ended."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return ""
    frames = [f for f in traceback.extract_stack(frame) if not f.filename.startswith((_THIS_FOLDER, threading.__file__))]
    if not frames:
        return ""
    return "".join(["It is here (most recent call last):\n", *traceback.format_list(frames)]).rstrip()


def _format_traceback(error: BaseException) -> str:
    """Return the traceback of an error without the frames of this folder, so that it begins in the user's code."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_THIS_FOLDER)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    return "".join([*lines, *traceback.format_exception_only(type(error), error)]).rstrip()

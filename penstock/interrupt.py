"""Ctrl-C during a long operation: ends Spark's jobs, then the operation, in a KeyboardInterrupt.

PySpark's own handler of SIGINT calls the JVM from inside a call of the JVM. The inner call fails, so that the jobs go on, and the
user sees errors of py4j. The handler of `catch_interrupts` raises nothing inside a call of the JVM: a thread cancels the jobs,
and the call that waits for them fails by itself. After Ctrl-C, `check_interrupt` raises KeyboardInterrupt until the operation
ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_CANCEL_EVERY_S = 0.5
#: The handlers that are replaced: Python's own and PySpark's. A handler of the user stays.
_REPLACED_MODULES = ("_signal", "signal", "pyspark.context", "pyspark.core.context")

_due = threading.Event()


def is_interrupted() -> bool:
    """Whether the user has pressed Ctrl-C during the running operation."""
    return _due.is_set()


def check_interrupt() -> None:
    """Raise KeyboardInterrupt if the user has pressed Ctrl-C during the running operation."""
    if _due.is_set():
        raise KeyboardInterrupt


@contextmanager
def catch_interrupts(cancel_jobs: Callable[[], object]) -> Iterator[None]:
    """Run the `with` block so that Ctrl-C cancels Spark's jobs and ends the block in a KeyboardInterrupt.

    Changes nothing in a thread other than the main thread, inside another `catch_interrupts` block, and if the program has its
    own handler of SIGINT.

    Args:
        cancel_jobs: cancels the jobs of the session. Called in a thread, again and again until the block ends: a job may begin
            after the first call.
    """
    before = _find_handler()
    if before is None:
        yield
        return
    over = threading.Event()

    def cancel_until_over() -> None:
        """Cancel jobs until the block ends. Runs in a thread, which has a connection to the JVM of its own."""
        while not over.is_set():
            with suppress(Exception):  # a session that was stopped has no jobs
                cancel_jobs()
            over.wait(_CANCEL_EVERY_S)

    def handle(number: int, frame: FrameType | None) -> None:
        """Note the interrupt, cancel the jobs and raise KeyboardInterrupt.

        At the first Ctrl-C inside a call of the JVM no error is raised: the call fails when its jobs are cancelled.
        """
        is_first = not _due.is_set()
        _due.set()
        if is_first:
            threading.Thread(target=cancel_until_over, daemon=True).start()
        if not is_first or not _calls_jvm(frame):
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    try:
        yield
        check_interrupt()
    except Exception:
        check_interrupt()  # the error of a Spark job that was cancelled
        raise
    finally:
        over.set()
        _due.clear()
        signal.signal(signal.SIGINT, before)


def _find_handler() -> Any:
    """Return Python's or PySpark's handler of SIGINT, which `catch_interrupts` may replace.

    Return None in a thread other than the main thread, and if the program has set its own handler.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    return handler if callable(handler) and getattr(handler, "__module__", "") in _REPLACED_MODULES else None


def _calls_jvm(frame: FrameType | None) -> bool:
    """Whether the code at this frame runs inside a call of py4j."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("py4j."):
            return True
        frame = frame.f_back
    return False

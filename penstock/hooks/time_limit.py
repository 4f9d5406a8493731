"""`run_within` limits the time that a call of another system may take, whatever that system does."""

from __future__ import annotations

import threading
from collections.abc import Callable


def run_within(seconds: float, run: Callable[[], None]) -> None:
    """Call a function on a thread of its own, and wait for it.

    The time-out of a socket limits each read only. So a server that sends a byte now and then could hold the caller for ever, and
    the lookup of a name has no time-out at all. A function that has not returned in time is left to its thread, which does not
    keep the process from ending.

    Args:
        seconds: how long to wait.
        run: the function.

    Raises:
        TimeoutError: the function did not return in time.
        BaseException: the error that the function raised.
    """
    errors: list[BaseException] = []

    def call() -> None:
        try:
            run()
        except BaseException as e:  # raised on the caller's thread
            errors.append(e)

    thread = threading.Thread(target=call, daemon=True, name="call with a time limit")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]

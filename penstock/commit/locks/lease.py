"""Leases: locks that expire when their holder dies, even if the clocks of machines do not agree.

The holder renews its lease and counts from the *beginning* of its last successful renewal. A contender counts from the moment
when it first *saw* that renewal. So the holder's lease has ended, by its own clock, before any contender takes the lock over.
Both count with a clock that goes on while a process is stopped or a machine suspended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock import clock
from penstock import options as o
from penstock.options import Options

#: Unless options say otherwise: a lock is held for milliseconds, so contenders ask often at first.
_FIRST_WAIT_S = 0.02
_LONGEST_WAIT_S = 0.25


class Lease:
    """The lease of the process that holds a lock. A thread renews it at regular intervals."""

    def __init__(self, length_s: float, every_s: float, renew: Callable[[], bool]) -> None:
        """Make a lease that has not started.

        Args:
            length_s: the seconds from the beginning of a successful renewal to the end of the lease.
            every_s: the seconds between two renewals.
            renew: renews the lease at the server or file; returns False if the lease was lost to another holder. If it raises an
                error, the renewal counts as missed: the lease goes on until its end.
        """
        self.length_s = length_s
        self._every_s = every_s
        self._renew = renew
        self._renewed_s = 0.0
        self._is_lost = False
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, began_s: float) -> None:
        """Start the lease and the thread that renews it.

        Args:
            began_s: the value of `clock.elapsed_s()` when the acquisition of the lock began. The lease counts from this moment.
        """
        self._renewed_s = began_s
        self._thread = threading.Thread(target=self._keep_renewing, daemon=True, name="lock-lease")
        self._thread.start()

    @property
    def is_valid(self) -> bool:
        """Whether the lease lasts, by this process's own clock. A lease that has ended never becomes valid again."""
        if clock.elapsed_s() - self._renewed_s >= self.length_s:
            self._is_lost = True
        return not self._is_lost

    def renew(self) -> bool:
        """Renew the lease at the server or file. Return whether the lease is valid.

        If the server or file cannot be reached, the lease stays valid until its end.
        """
        with self._lock:
            if not self.is_valid:
                return False
            began_s = clock.elapsed_s()
            try:
                is_mine = self._renew()
            except Exception:  # errors of servers and networks have many classes
                return self.is_valid
            # The process may have been stopped inside of `_renew`: then the old lease ended before the new one began.
            if not is_mine or not self.is_valid:
                self._is_lost = True
                return False
            self._renewed_s = began_s
            return True

    def stop(self) -> None:
        """End the lease and the thread that renews it."""
        self._done.set()
        self._is_lost = True
        thread = self._thread
        # A renewal after the release would bring the lock back, so the thread is awaited; it may be in a request.
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _keep_renewing(self) -> None:
        """Renew the lease at regular intervals until it is lost or stopped. Runs in the lease's thread."""
        while not self._done.wait(self._every_s):
            if not self.renew():
                return


class Watch:
    """Observes whether another holder still renews its lease. Used by one thread at a time."""

    def __init__(self) -> None:
        self._seen: object = None
        self._since_s = 0.0

    def is_expired(self, version: object, length_s: float) -> bool:
        """Whether the lease of another holder has expired: this process has seen the same version for longer than the lease.

        The first call with a version starts the count and returns False.

        Args:
            version: what the holder changes with each renewal, for example a version number.
            length_s: the length of the holder's lease, in seconds.
        """
        now_s = clock.elapsed_s()
        if version != self._seen:
            self._seen = version
            self._since_s = now_s
            return False
        return now_s - self._since_s > length_s


class Waits:
    """The waits of a contender between two attempts to take a lock: longer each time, with jitter, until a deadline.

    `hoodie.write.lock.wait_time_ms_between_retry`, `.max_wait_time_ms_between_retry` and `.num_retries` set the first wait, the
    longest wait and the number of waits. Jitter keeps contenders from coming at the same moment again and again.
    """

    def __init__(self, options: Options, deadline_s: float) -> None:
        first_ms = options[o.LOCK_RETRY_MS]
        longest_ms = options[o.LOCK_RETRY_MS_MAX]
        self._next_s = _FIRST_WAIT_S if first_ms is None else first_ms / 1000
        self._longest_s = max(self._next_s, _LONGEST_WAIT_S) if longest_ms is None else longest_ms / 1000
        self._left = options[o.LOCK_RETRIES]
        self._deadline_s = deadline_s

    def pause(self) -> bool:
        """Wait, then return True for another attempt. Return False at once if the deadline has passed or no retries are left."""
        left_s = self._deadline_s - clock.elapsed_s()
        if left_s <= 0 or self._left == 0:
            return False
        if self._left is not None:
            self._left -= 1
        wait_s = min(self._next_s, self._longest_s)
        clock.sleep_s(min(left_s, jitter(wait_s)))
        self._next_s = wait_s * 2
        return True


def jitter(wait_s: float) -> float:
    """Return a random wait between half of `wait_s` and `wait_s`."""
    return wait_s * (0.5 + clock.random_fraction() / 2)

"""Reads several sources on threads and yields their tables in the order of the sources, in bounded memory.

The first source that is not finished may always go on. The others read ahead until the tables that wait take `limit_bytes`. So
the order does not depend on the threads, and a large source does not keep the others from working.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

Source = Callable[[], Iterator[pa.Table]]


@dataclass
class _Output:
    """The Arrow tables that one source has read and that `read_in_order` has not yielded yet; and how the source ended."""

    tables: deque[pa.Table] = field(default_factory=deque)
    is_done: bool = False
    error: BaseException | None = None


def read_in_order(sources: Sequence[Source], threads: int, limit_bytes: int) -> Iterator[pa.Table]:
    """Yield the Arrow tables of all sources: those of the first source, then those of the second, and so on.

    The threads end when the caller closes the iterator. An error of a source is raised in its place in the order.

    Args:
        sources: functions without arguments that return an iterator of Arrow tables. Each is called on one of the threads.
        threads: how many sources are read at once.
        limit_bytes: threads wait while the tables that are read and not yet yielded take this many bytes. The source whose tables
            are being yielded may always add one.
    """
    reads = _OrderedReads(sources, limit_bytes)
    workers = [threading.Thread(target=reads.work, daemon=True) for _ in range(min(threads, len(sources)))]
    for worker in workers:
        worker.start()
    try:
        for number in range(len(sources)):
            yield from reads.tables_of(number)
    finally:
        reads.cancel()
        for worker in workers:
            worker.join()


class _OrderedReads:
    """The state that the threads of one `read_in_order` share."""

    def __init__(self, sources: Sequence[Source], limit_bytes: int) -> None:
        self._sources = sources
        self._limit_bytes = limit_bytes
        self._outputs = [_Output() for _ in sources]
        self._next = 0  # the source that the next free thread takes
        self._current = 0  # the source that the caller is at
        self._waiting_bytes = 0
        self._is_cancelled = False
        self._changed = threading.Condition()

    def work(self) -> None:
        """Read the next source that no thread has taken, until none is left. Runs on a thread of `read_in_order`."""
        while True:
            with self._changed:
                number = self._next
                if self._is_cancelled or number == len(self._sources):
                    return
                self._next += 1
            self._read(number)

    def _read(self, number: int) -> None:
        """Read the source with this number to its end, or to its first error, and keep its tables in its `_Output`."""
        output = self._outputs[number]
        error: BaseException | None = None
        try:
            for table in self._sources[number]():
                if not self._add(number, table):
                    return
        except BaseException as e:  # the caller's thread raises it
            error = e
        with self._changed:
            output.is_done = True
            output.error = error
            self._changed.notify_all()

    def _add(self, number: int, table: pa.Table) -> bool:
        """Wait until there is room for an Arrow table of a source, and add it. Return True.

        If the reads are cancelled, return False without adding it.
        """

        def may_go_on() -> bool:
            is_current = number == self._current and not self._outputs[number].tables
            return self._is_cancelled or is_current or self._waiting_bytes < self._limit_bytes

        with self._changed:
            self._changed.wait_for(may_go_on)
            if self._is_cancelled:
                return False
            self._outputs[number].tables.append(table)
            self._waiting_bytes += table.nbytes
            self._changed.notify_all()
            return True

    def tables_of(self, number: int) -> Iterator[pa.Table]:
        """Yield the Arrow tables of the source with this number, as they arrive.

        An error of the source is raised after its tables. Runs on the thread that called `read_in_order`.
        """
        output = self._outputs[number]
        with self._changed:
            self._current = number
            self._changed.notify_all()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: output.tables or output.is_done)
                if not output.tables:
                    break
                table = output.tables.popleft()
                self._waiting_bytes -= table.nbytes
                self._changed.notify_all()
            yield table
            del table  # frees the table before waiting for the next one
        if output.error is not None:
            raise output.error

    def cancel(self) -> None:
        """Make the threads end as soon as they have read their current Arrow table."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()

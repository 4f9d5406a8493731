"""What a long operation is doing, for people; and how long each stage took, for the commit.

Silent unless somebody looks: a terminal or a notebook, or `penstock.progress=on`. Nothing here knows Spark.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any

from penstock import clock

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class StageTime:
    """A finished stage."""

    name: str
    seconds: float
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class TaskProgress:
    """The tasks of a stage: how many there are, and how many of them have begun, which is asked now and then."""

    total: int
    begun: Callable[[], int]


class Stages:
    """The stages of one operation, shown as they run and kept for the commit.

    Args:
        around: what else is to be open while a stage runs, given what it is doing.
    """

    def __init__(
        self, title: str, mode: str = "auto", around: Callable[[str], AbstractContextManager[None]] | None = None
    ) -> None:
        self.title, self.done = title, list[StageTime]()
        self._display = _Display(title) if mode == "on" or (mode == "auto" and _somebody_looks()) else None
        self._around = around or (lambda _: nullcontext())

    @contextmanager
    def run(self, name: str, doing: str, tasks: TaskProgress | None = None) -> Iterator[StageNotes]:
        """One stage; the block may note how many rows and bytes it was about."""
        notes, started = StageNotes(), clock.monotonic_s()
        if self._display:
            self._display.begin(doing, tasks)
        try:
            with self._around(f"{self.title}: {doing}"):
                yield notes
        finally:
            seconds = clock.monotonic_s() - started
            self.done.append(StageTime(name, round(seconds, 3), notes.rows, notes.size_bytes))
            if self._display:
                self._display.end(doing, seconds, notes)

    def to_text(self) -> str:
        """Seconds, rows and bytes of every stage, as a commit keeps them."""
        return json.dumps({s.name: {"seconds": s.seconds, "rows": s.rows, "bytes": s.size_bytes} for s in self.done})


@dataclass
class StageNotes:
    """How much a stage was about."""

    rows: int = 0
    size_bytes: int = 0


class _Display:
    """One line a stage: a spinner while it runs, with the tasks that have begun; its time when it is done."""

    def __init__(self, title: str) -> None:
        from rich.console import Console

        self._console: Any = Console(stderr=True)
        self._title = title
        self._status: Any = None
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def begin(self, doing: str, tasks: TaskProgress | None) -> None:
        line = f"[bold]{self._title}[/bold]  {doing}"
        self._status = self._console.status(line)
        self._status.start()
        self._over.clear()
        if tasks is not None and tasks.total > 1:
            self._watcher = threading.Thread(target=self._watch, args=(line, tasks), daemon=True)
            self._watcher.start()

    def _watch(self, line: str, tasks: TaskProgress) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            with suppress(Exception):  # a look that fails must not disturb the work
                self._status.update(f"{line}  {min(tasks.begun(), tasks.total)} of {tasks.total}")

    def end(self, doing: str, seconds: float, notes: StageNotes) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
        self._status.stop()
        what = f"  {notes.rows:,} rows" if notes.rows else ""
        self._console.print(f"[dim]{self._title}[/dim]  {doing}  [green]{seconds:.2f} s[/green]{what}", highlight=False)


def _somebody_looks() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def format_bytes(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def format_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], width: int = 120) -> str:
    """A table as text, as it would look in a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    for i, name in enumerate(headers):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console = Console(width=width, record=True, file=StringIO())
    console.print(table)
    return console.export_text().rstrip()

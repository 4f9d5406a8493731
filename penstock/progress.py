"""Shows the stages of a long operation to the user while they run, and times them for the commit.

Nothing is shown unless the program runs in a terminal or a notebook, or `penstock.progress=on` is set. This module does not
import Spark.
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
from penstock.interrupt import check_interrupt

_REFRESH_EVERY_S = 0.5


@dataclass(frozen=True)
class StageTime:
    """The duration of a finished stage, and the rows and bytes that it processed."""

    name: str
    seconds: float
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class TaskProgress:
    """The number of tasks of a running stage, and a function `begun` that returns how many of them have begun.

    The function is called twice a second while progress is shown.
    """

    total: int
    begun: Callable[[], int]


@dataclass
class StageNotes:
    """The rows and bytes that a running stage has processed. The code of the stage sets them."""

    rows: int = 0
    size_bytes: int = 0


class Stages:
    """The stages of one operation, for example of an upsert. Records the time of each, and shows them if the mode says so.

    Args:
        title: the operation and the table, such as "upsert trips".
        mode: the value of `penstock.progress`: "on", "off", or "auto" for a terminal or a notebook.
        around: returns a context manager that is entered for each stage; called with "<title>: <activity of the stage>".
    """

    def __init__(
        self, title: str, mode: str = "auto", around: Callable[[str], AbstractContextManager[None]] | None = None
    ) -> None:
        self.title = title
        self.done: list[StageTime] = []
        is_shown = mode == "on" or (mode == "auto" and _is_interactive())
        self._display = _Display(title) if is_shown else None
        self._around = around or _no_context

    @contextmanager
    def run(self, name: str, doing: str, tasks: TaskProgress | None = None) -> Iterator[StageNotes]:
        """Run the `with` block as one stage, and record its time. A stage that raises is recorded too.

        The block receives `StageNotes`, in which it may set its rows and bytes.

        Args:
            name: the name of the stage in `done`.
            doing: the activity that the user sees, such as "writing files".
            tasks: the tasks of the stage, to show how many have begun; None: no number is shown.
        """
        check_interrupt()
        notes = StageNotes()
        started = clock.monotonic_s()
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
        """Return the seconds, rows and bytes of each finished stage as JSON, for the extra metadata of a commit."""
        stages = {}
        for stage in self.done:
            stages[stage.name] = {"seconds": stage.seconds, "rows": stage.rows, "bytes": stage.size_bytes}
        return json.dumps(stages)


def _no_context(activity: str) -> AbstractContextManager[None]:
    """Return a context manager that does nothing."""
    return nullcontext()


class _Display:
    """Shows one line per stage on stderr: a spinner with the number of begun tasks while the stage runs, then its duration."""

    def __init__(self, title: str) -> None:
        from rich.console import Console

        self._console: Any = Console(stderr=True)
        self._title = title
        self._status: Any = None
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def begin(self, doing: str, tasks: TaskProgress | None) -> None:
        """Start the spinner of a stage, and a thread that updates the number of begun tasks."""
        line = f"[bold]{self._title}[/bold]  {doing}"
        self._status = self._console.status(line)
        self._status.start()
        self._over.clear()
        if tasks is not None and tasks.total > 1:
            self._watcher = threading.Thread(target=self._watch, args=(line, tasks), daemon=True)
            self._watcher.start()

    def _watch(self, line: str, tasks: TaskProgress) -> None:
        """Update the number of begun tasks in the spinner's line until the stage is over. Runs in a thread."""
        while not self._over.wait(_REFRESH_EVERY_S):
            with suppress(Exception):  # counting may fail, as a listing of markers does: the operation must not
                self._status.update(f"{line}  {min(tasks.begun(), tasks.total)} of {tasks.total}")

    def end(self, doing: str, seconds: float, notes: StageNotes) -> None:
        """Stop the spinner, and print the stage with its duration and rows."""
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
        self._status.stop()
        rows = f"  {notes.rows:,} rows" if notes.rows else ""
        self._console.print(f"[dim]{self._title}[/dim]  {doing}  [green]{seconds:.2f} s[/green]{rows}", highlight=False)


def _is_interactive() -> bool:
    """Whether the program runs in a terminal or a notebook."""
    return sys.stderr.isatty() or _has_kernel()


def _has_kernel() -> bool:
    """Whether this process is the kernel of a notebook. That ipykernel is imported is no sign: PySpark 4 imports it by itself."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1: `1 file group`, `1,200 file groups`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_bytes(count: float) -> str:
    """Return a number of bytes with a unit, such as "1.5 kB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def format_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], width: int = 120) -> str:
    """Return a table as text, as a terminal of `width` characters shows it.

    The first column is aligned left, the others right.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    for number, name in enumerate(headers):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console = Console(width=width, record=True, file=StringIO())
    console.print(table)
    return console.export_text().rstrip()

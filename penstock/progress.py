"""Shows the stages of a long operation to the user while they run, and times them for the commit.

In a terminal each stage leaves one line. In a notebook an operation has one line, which is updated while it runs and ends as a
summary. Nothing is shown elsewhere, unless `penstock.progress=on` is set. This module does not import Spark.
"""

from __future__ import annotations

import html
import json
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from penstock import clock
from penstock.errors import CommitUnknown
from penstock.interrupt import check_interrupt, is_interrupted
from penstock.report_table import make_printable

_REFRESH_EVERY_S = 0.5
#: Among the stages of a commit: the conflicts after which it ran again.
CONFLICTS = "conflicts"


@dataclass(frozen=True)
class StageTime:
    """The duration of a finished stage, and the rows and bytes that it processed."""

    name: str
    seconds: float
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class TaskProgress:
    """How many tasks a running stage has, and a function `begun` that returns how many of its tasks have begun.

    `begun` is called twice a second while progress is shown.
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

    Use it in a `with` statement around the operation: a notebook shows the outcome when the block ends.

    Args:
        title: the operation and the table, such as "upsert trips".
        mode: the value of `penstock.progress`: "on", "off", or "auto" to show stages in a terminal or a notebook.
        around: a function that is called for each stage with "<title>: <activity of the stage>". It returns a context manager,
            which is entered while the stage runs. Writes and services pass a function that names the stage's Spark jobs. None: no
            context manager is entered.
    """

    def __init__(
        self, title: str, mode: str = "auto", around: Callable[[str], AbstractContextManager[None]] | None = None
    ) -> None:
        self.title = title
        self.done: list[StageTime] = []
        #: What the operation lost to other writers, each in words. It ran again after each, unless it failed.
        self.conflicts: list[str] = []
        self._display = _make_display(mode)
        self._around = around or _no_context
        self._began = clock.monotonic_s()
        #: When the `with` block ended; None until then.
        self._ended: float | None = None
        #: The finished stages as the summary names them.
        self._finished: list[str] = []
        #: The activity of the stage that runs or has failed; empty between stages.
        self._doing = ""
        self._reason_to_give_up = ""

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Show the outcome of the operation. Nothing is shown if no stage has begun."""
        self._ended = clock.monotonic_s()
        if self._display and (self._finished or self._doing):
            self._display.close(self.title, *self._summarize(error))

    @property
    def seconds(self) -> float:
        """The seconds from the time the object was made, when the first attempt began, to the end of the operation, or to now."""
        return (self._ended or clock.monotonic_s()) - self._began

    def restart(self, title: str) -> None:
        """Begin the operation, or begin it again, under a new title. Finished stages of an earlier attempt are forgotten.

        The conflicts of earlier attempts are kept, and `seconds` still counts from the first one.
        """
        self.title = title
        self.done.clear()
        self._finished.clear()
        self._doing = ""

    def give_up(self, reason: str) -> None:
        """Note that the operation is given up without an error, for a reason such as "another process writes"."""
        self._reason_to_give_up = reason

    @contextmanager
    def run(self, name: str, doing: str, tasks: TaskProgress | None = None, *, starts_jobs: bool = True) -> Iterator[StageNotes]:
        """Run the `with` block as one stage, and record its time. A stage that raises is recorded too.

        The block receives `StageNotes`, in which it may set its rows and bytes.

        Args:
            name: the name of the stage in `done`.
            doing: the activity that the user sees, such as "writing files".
            tasks: the tasks of the stage, to show how many have begun; None: no number is shown.
            starts_jobs: whether the stage may start Spark jobs. If not, the context manager that names them (`around` of
                `Stages`) is not entered, which saves a call of the JVM.
        """
        check_interrupt()
        notes = StageNotes()
        started = clock.monotonic_s()
        self._doing = doing
        if self._display:
            self._display.begin(self.title, doing, tasks)
        try:
            with self._around(f"{self.title}: {doing}") if starts_jobs else nullcontext():
                yield notes
            self._doing = ""  # stays set if the stage raises
        finally:
            seconds = clock.monotonic_s() - started
            self.done.append(StageTime(name, round(seconds, 3), notes.rows, notes.size_bytes))
            rows = f"{format_count(notes.rows, 'row')}, " if notes.rows else ""
            self._finished.append(f"{doing}: {rows}{seconds:.2f} s")
            if self._display:
                self._display.end(self.title, doing, seconds, notes)

    def to_text(self) -> str:
        """Return the seconds, rows and bytes of each finished stage as JSON, for the extra metadata of a commit.

        If the operation ran again after conflicts with other writers, the JSON also lists the conflicts.
        """
        stages: dict[str, object] = {}
        for stage in self.done:
            stages[stage.name] = {"seconds": stage.seconds, "rows": stage.rows, "bytes": stage.size_bytes}
        if self.conflicts:
            stages[CONFLICTS] = self.conflicts
        return json.dumps(stages)

    def _summarize(self, error: BaseException | None) -> tuple[str, str]:
        """Return (outcome of the operation, details), such as "done in 1.20 s" and a list of its stages, for the display.

        Args:
            error: the error that ended the operation; None: it succeeded or was given up.
        """
        seconds = f"{clock.monotonic_s() - self._began:.2f} s"
        if error is None and not self._reason_to_give_up:
            ran_again = [f"ran again after {format_count(len(self.conflicts), 'conflict')}"] if self.conflicts else []
            return f"done in {seconds}", f"({'; '.join([*self._finished, *ran_again])})"
        if error is None:
            return f"given up after {seconds}", self._reason_to_give_up
        place = f"while {self._doing}" if self._doing else "after its last stage"
        if isinstance(error, KeyboardInterrupt) or is_interrupted():
            return f"interrupted after {seconds}", place
        if isinstance(error, CommitUnknown):
            return f"not known whether it is committed, after {seconds}", place
        return f"failed after {seconds}", place


def _no_context(activity: str) -> AbstractContextManager[None]:
    """Return a context manager that does nothing."""
    return nullcontext()


def _make_display(mode: str) -> _Display | None:
    """Return the display for a value of `penstock.progress`; None if nothing is shown."""
    if mode == "off":
        return None
    if _has_kernel():
        return _NotebookDisplay()
    return _TerminalDisplay() if mode == "on" or sys.stderr.isatty() else None


class _Display(ABC):
    """Base class of the displays: shows the stages of one operation. A thread updates the stage that is running.

    In all methods `title` is the operation and the table, and `doing` the activity of the stage, such as "merging into 3 file
    groups".
    """

    def __init__(self) -> None:
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def begin(self, title: str, doing: str, tasks: TaskProgress | None) -> None:
        """Show that a stage has begun, and start the thread that updates it.

        Args:
            title: the operation and the table, such as "upsert trips".
            doing: the activity of the stage, such as "merging into 3 file groups".
            tasks: the tasks of the stage, to show how many have begun; None: no number is shown.
        """
        self._over.clear()
        self._begin_stage(title, doing)
        self._watcher = threading.Thread(target=self._watch, args=(title, doing, tasks), daemon=True)
        self._watcher.start()

    def end(self, title: str, doing: str, seconds: float, notes: StageNotes) -> None:
        """Stop the thread, and show that the stage has ended.

        Args:
            title: the operation and the table, such as "upsert trips".
            doing: the activity of the stage, such as "merging into 3 file groups".
            seconds: for how long the stage ran.
            notes: the rows and bytes that the stage processed.
        """
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
        self._end_stage(title, doing, seconds, notes)

    @abstractmethod
    def close(self, title: str, outcome: str, details: str) -> None:
        """Show the outcome of the whole operation.

        Args:
            title: the operation and the table, such as "upsert trips".
            outcome: how the operation ended, such as "done in 1.20 s".
            details: a list of the stages.
        """

    def _watch(self, title: str, doing: str, tasks: TaskProgress | None) -> None:
        """Update the display of the running stage until the stage has ended. Runs in a thread.

        Args:
            title: the operation and the table, such as "upsert trips".
            doing: the activity of the stage, such as "merging into 3 file groups".
            tasks: the tasks of the stage, to show how many have begun; None: no number is shown.
        """
        began = clock.monotonic_s()
        while not self._over.wait(_REFRESH_EVERY_S):
            with suppress(Exception):  # counting may fail, as a listing of markers does: the operation must not
                counted = ""
                if tasks is not None and tasks.total > 1:
                    counted = f"{min(tasks.begun(), tasks.total)} of {tasks.total}"
                self._update_stage(title, doing, counted, clock.monotonic_s() - began)

    @abstractmethod
    def _begin_stage(self, title: str, doing: str) -> None:
        """Show that a stage has begun, whose activity is `doing`."""

    @abstractmethod
    def _update_stage(self, title: str, doing: str, counted: str, seconds: float) -> None:
        """Show how far the running stage has come.

        Args:
            doing: the activity of the stage, such as "merging into 3 file groups".
            counted: how many of its tasks have begun, such as "3 of 8"; empty: not known.
            seconds: for how long the stage has run.
        """

    @abstractmethod
    def _end_stage(self, title: str, doing: str, seconds: float, notes: StageNotes) -> None:
        """Show that a stage has ended.

        Args:
            doing: the activity of the stage, such as "merging into 3 file groups".
            seconds: for how long the stage ran.
            notes: the rows and bytes that the stage processed.
        """


class _TerminalDisplay(_Display):
    """Shows one line per stage on stderr: a spinner with the number of begun tasks while the stage runs, then its duration."""

    def __init__(self) -> None:
        from rich.console import Console

        super().__init__()
        self._console: Any = Console(stderr=True)
        self._status: Any = None

    def close(self, title: str, outcome: str, details: str) -> None:
        """Show nothing: each stage has left its line."""

    def _begin_stage(self, title: str, doing: str) -> None:
        """Start the spinner of a stage."""
        self._status = self._console.status(_mark_up(title, "bold", doing))
        self._status.start()

    def _update_stage(self, title: str, doing: str, counted: str, seconds: float) -> None:
        """Update the number of begun tasks in the spinner's line."""
        if counted:
            self._status.update(f"{_mark_up(title, 'bold', doing)}  {counted}")

    def _end_stage(self, title: str, doing: str, seconds: float, notes: StageNotes) -> None:
        """Stop the spinner, and print the stage with its duration and rows."""
        self._status.stop()
        rows = f"  {format_count(notes.rows, 'row')}" if notes.rows else ""
        self._console.print(f"{_mark_up(title, 'dim', doing)}  [green]{seconds:.2f} s[/green]{rows}", highlight=False)


def _mark_up(title: str, style: str, doing: str) -> str:
    """Return the beginning of a line (operation, stage) in the markup of the library rich.

    Brackets in the name of a table are text, not markup.
    """
    from rich.markup import escape

    return f"[{style}]{escape(make_printable(title))}[/{style}]  {escape(doing)}"


class _NotebookDisplay(_Display):
    """Shows one line per operation in the output of a notebook cell. Updates replace it; the last one is a summary.

    An error of the notebook must not end the operation, so all errors of the display are suppressed.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The handle of the displayed line; None before the first stage.
        self._handle: Any = None
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self, title: str, outcome: str, details: str) -> None:
        """Replace the operation's line by its outcome and a list of its stages."""
        self._show(title, outcome, details)
        self._is_closed = True

    def _begin_stage(self, title: str, doing: str) -> None:
        """Show the activity of the stage."""
        self._show(title, f"{doing} …")

    def _update_stage(self, title: str, doing: str, counted: str, seconds: float) -> None:
        """Show the number of begun tasks, and the seconds since the stage began."""
        details = f"{counted}, {seconds:.0f} s" if counted else f"{seconds:.0f} s"
        self._show(title, f"{doing} …", details)

    def _end_stage(self, title: str, doing: str, seconds: float, notes: StageNotes) -> None:
        """Show nothing: the next stage or the summary follows."""

    def _show(self, title: str, text: str, details: str = "") -> None:
        """Display the operation's line in the notebook, or replace the displayed line.

        Args:
            title: the operation and the table, such as "upsert trips".
            text: the activity or the outcome.
            details: the end of the line, which HTML shows paler.
        """
        from IPython.display import DisplayHandle

        content = _format_line(title, text, details)
        with self._lock, suppress(Exception):
            if self._is_closed:  # an update of a thread that Ctrl-C left behind
                return
            if self._handle is None:
                self._handle = DisplayHandle()
                self._handle.display(content, raw=True)
            else:
                self._handle.update(content, raw=True)


def _format_line(title: str, text: str, details: str) -> dict[str, str]:
    """Return a progress line for a notebook, as plain text and as HTML.

    Args:
        details: the end of the line, which HTML shows paler; empty: none.
    """
    title, text, details = map(make_printable, (title, text, details))
    pale = f' <span style="opacity:0.65">{html.escape(details)}</span>' if details else ""
    return {
        "text/plain": f"{title}: {text} {details}".rstrip(),
        "text/html": f"<div><b>{html.escape(title)}</b>: {html.escape(text)}{pale}</div>",
    }


def _has_kernel() -> bool:
    """Whether this process is the kernel of a notebook.

    That the module `ipykernel` is imported does not prove it, because PySpark 4 imports that module by itself.
    """
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

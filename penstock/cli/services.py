"""`penstock services`: table services in a process of their own, beside whoever writes.

`run` looks again and again at what is due and does it; a writer may be at work. Ctrl-C ends it: what was under way is left as
a crash would leave it, and the next run finishes or undoes it.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

import typer
from rich.console import Console

import penstock
from penstock import clock
from penstock.cli.arguments import OPTION, PATH, options_of
from penstock.door.services import needs_spark
from penstock.options import read_options
from penstock.table import open_table

_STOPPED = 130
#: How often a wait looks whether it is over.
_TICK_S = 0.2


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(no_args_is_help=True, help="Clean, archive, compact, cluster: run what is due, and see what is not done.")
    app.command("run")(run)
    app.command("list")(list_pending)
    app.command("health")(health)
    app.command("check")(check)
    return app


def run(
    path: str = PATH,
    once: bool = typer.Option(False, "--once", help="Run what is due, then end."),
    interval: float = typer.Option(60.0, "--interval", min=0.1, help="Seconds between the end of one round and the next."),
    option: list[str] = OPTION,
) -> None:
    """Run the services that are due; safe beside a running writer. Ctrl-C ends it without harm."""
    given, console = options_of(option), Console()
    signal.signal(signal.SIGTERM, _stop)
    is_working = True
    try:
        while True:
            is_working = True
            failed = _round(_open(path, given), console)
            if once:
                sys.exit(1 if failed else 0)
            is_working = False
            _wait(interval)
    except KeyboardInterrupt:
        left = "; what was under way is finished by the next run" if is_working else ""
        console.print(f"stopped{left}", highlight=False)
        sys.exit(_STOPPED if is_working else 0)


def list_pending(path: str = PATH) -> None:
    """Show plans and writes that are not done yet."""
    table = penstock.Table.open(path)
    history = table.history()
    waiting = [entry for entry in history if entry.state != "completed"]
    typer.echo(str(type(history)(waiting, table.name)) if waiting else f"nothing of {table.name} waits")


def health(path: str = PATH, option: list[str] = OPTION) -> None:
    """Show how a table is doing, with what to do where something is wrong."""
    typer.echo(str(penstock.Table.open(path, options=options_of(option)).health()))


def check(path: str = PATH) -> None:
    """Show files that are missing, or that nobody answers for; exit code 1 if there are any. While nobody writes."""
    found = penstock.Table.open(path).check_files()
    Console().print(found if found else "every file is explained, and none is missing", soft_wrap=True)
    sys.exit(1 if found else 0)


def _open(path: str, options: dict[str, object]) -> penstock.Table:
    """The table; with a session, the same each time, if its services may need one."""
    spark: Any = penstock.session() if needs_spark(open_table(path, read_options(options))) else None
    return penstock.Table.open(path, spark=spark, options=options)


def _round(table: penstock.Table, console: Console) -> bool:
    """Run what is due once; whether anything failed."""

    def tell(run: Any) -> None:
        if run.error:
            console.print(f"{run.service}: [red]failed[/red] {run.error}", highlight=False, soft_wrap=True)
        else:
            console.print(f"{run.service}: {run.done or 'not due'} ({run.seconds:.1f} s)", highlight=False)

    return any(run.error for run in table.run_due(told=tell))


def _wait(seconds: float) -> None:
    over = clock.monotonic_s() + seconds
    while (left := over - clock.monotonic_s()) > 0:
        clock.sleep_s(min(left, _TICK_S))


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """A request to end, from whoever runs the process, is like Ctrl-C."""
    raise KeyboardInterrupt

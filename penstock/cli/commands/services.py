"""`penstock services`: runs table services in a process of their own, concurrently with writers.

`run` runs the services that are due, again and again, until Ctrl-C. A run of a plan that Ctrl-C interrupts is rolled back, and
the next run resumes the plan. The last line says what became of the service.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

import penstock
from penstock import clock
from penstock.cli.arguments import OPTION, PATH, parse_options

_STOPPED = 130
#: How often a wait checks whether it is over.
_TICK_S = 0.2


def commands() -> typer.Typer:
    """Return the typer application with the commands of `penstock services`."""
    app = typer.Typer(no_args_is_help=True, help="Run the services that are due, and show what is pending.")
    app.command("run")(run)
    app.command("list")(list_pending)
    app.command("health")(health)
    app.command("check")(check)
    app.command("repair")(repair)
    return app


def run(
    path: str = PATH,
    once: bool = typer.Option(False, "--once", help="Run the services that are due once, then exit."),
    interval: float = typer.Option(60.0, "--interval", min=0.1, help="Seconds between the end of one round and the next."),
    option: list[str] = OPTION,
) -> None:
    """Run the services that are due, while other processes may write. Ctrl-C is safe."""
    given = parse_options(option)
    console = Console()
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
    except KeyboardInterrupt as e:
        left = f": {e}" if str(e) else ""
        console.print(f"stopped{left}", highlight=False, soft_wrap=True)
        sys.exit(_STOPPED if is_working else 0)


def list_pending(path: str = PATH) -> None:
    """Show the plans of table services, and the writes, that are pending on the timeline."""
    table = penstock.Table.open(path)
    history = table.history()
    waiting = [entry for entry in history if entry.state != "completed"]
    typer.echo(str(type(history)(waiting, table.name)) if waiting else f"{table.name} has no pending plans or writes")


def health(path: str = PATH, option: list[str] = OPTION) -> None:
    """Show the health of a table, with suggestions."""
    typer.echo(str(penstock.Table.open(path, options=parse_options(option)).health()))


def check(path: str = PATH) -> None:
    """Show files that are missing or too short, and orphan files, which nothing on the timeline explains.

    Exit code 1 if there are any. Run it while no process writes.
    """
    found = penstock.Table.open(path).check_files()
    Console().print(found if found else str(found), soft_wrap=True)
    sys.exit(1 if found else 0)


def repair(
    path: str = PATH,
    dry_run: bool = typer.Option(False, "--dry-run", help="Show the damage and change nothing; exit code 1 if there is any."),
    option: list[str] = OPTION,
) -> None:
    """Compact file groups with damaged log files, without the blocks that cannot be read. The rows of these blocks are lost."""
    given = parse_options(option)
    table = penstock.Table.open(path, options=given) if dry_run else _open(path, given)
    repaired = table.repair(dry_run=dry_run)
    typer.echo(str(repaired) if repaired else "no log file is damaged")
    for commit in repaired.commits:
        typer.echo(str(commit))
    sys.exit(1 if dry_run and repaired else 0)


def _open(path: str, options: dict[str, object]) -> penstock.Table:
    """Open the table with these options. Start a Spark session if one of the services that may be due needs it."""
    # Imported here, so that `--version` and `--help` do not wait for them.
    from penstock.commit.open_finished import open_finished
    from penstock.door.services import needs_spark
    from penstock.options import read_options

    spark: Any = penstock.session() if needs_spark(open_finished(path, read_options(options))) else None
    return penstock.Table.open(path, spark=spark, options=options)


def _round(table: penstock.Table, console: Console) -> bool:
    """Run one round of table services: each one that is due. Print a line for each. Return whether one of them failed."""

    def show(run: Any) -> None:
        """Print the result of one table service."""
        if run.error:
            console.print(f"{run.service}: [red]failed[/red] {escape(run.error)}", highlight=False, soft_wrap=True)
        else:
            console.print(f"{run.service}: {run.done or 'not due'} ({run.seconds:.1f} s)", highlight=False)

    return any(run.error for run in table.run_due(told=show))


def _wait(seconds: float) -> None:
    """Sleep for this many seconds, in short steps, so that Ctrl-C ends the wait at once."""
    over = clock.monotonic_s() + seconds
    while (left := over - clock.monotonic_s()) > 0:
        clock.sleep_s(min(left, _TICK_S))


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """Handle SIGTERM: call the present handler of Ctrl-C, or raise KeyboardInterrupt if Ctrl-C has no handler in Python."""
    if not callable(signal.getsignal(signal.SIGINT)):
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)

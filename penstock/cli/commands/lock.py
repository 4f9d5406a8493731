"""`penstock lock`: shows who holds the lock of a table, and breaks the lock of a dead writer."""

from __future__ import annotations

import typer

import penstock
from penstock.cli.arguments import OPTION, PATH, parse_options


def commands() -> typer.Typer:
    """Return the commands below `penstock lock`."""
    app = typer.Typer(no_args_is_help=True, help="The lock of several writers.")
    app.command("show")(show)
    app.command("break")(break_)
    return app


def show(path: str = PATH, option: list[str] = OPTION) -> None:
    """Print who holds the lock of the table, since when, from which host and for which instant; `free` if no writer does."""
    holder = penstock.Table.open(path).lock(parse_options(option))
    typer.echo(f"held by {holder.describe()}" if holder else "free")


def break_(
    path: str = PATH,
    option: list[str] = OPTION,
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
) -> None:
    """Take the lock away from its holder, which must be a dead writer. Asks for confirmation first, unless `--yes` is set."""
    table = penstock.Table.open(path)
    options = parse_options(option)
    holder = table.lock(options)
    if holder is None:
        typer.echo("free")
        return
    if not yes:
        typer.confirm(f"The lock is held by {holder.describe()}. Break it?", abort=True)
    broken = table.break_lock(options)
    typer.echo(f"broken; it was held by {broken.describe()}" if broken else "free")

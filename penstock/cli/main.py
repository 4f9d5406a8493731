"""The program `penstock`: registers the commands and prints errors."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the command line names. A Penstock error prints one line and ends the program with exit code 1."""
    try:
        import typer
    except ImportError:
        sys.exit("the command line needs typer: install penstock[cli]")
    from rich.console import Console
    from rich.markup import escape

    from penstock.cli.arguments import describe_program
    from penstock.cli.commands import explain_merge as merges
    from penstock.cli.commands import lock, services
    from penstock.cli.commands import sync as syncing
    from penstock.cli.commands.doctor import doctor
    from penstock.errors import PenstockError

    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        help="Apache Hudi tables, without a jar.",
        pretty_exceptions_show_locals=False,  # local variables hold secrets of options
    )
    app.callback()(describe_program)
    app.command("explain-merge")(merges.explain_merge)
    app.command("sync")(syncing.sync)
    app.command("doctor")(doctor)
    app.add_typer(lock.commands(), name="lock")
    app.add_typer(services.commands(), name="services")
    try:
        app()
    except PenstockError as e:
        Console(stderr=True).print(f"[red]{type(e).__name__}[/red] {escape(str(e))}", highlight=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()

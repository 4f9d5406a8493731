"""Command line arguments that several commands of `penstock` share."""

from __future__ import annotations

import typer

import penstock
from penstock.errors import OptionError

PATH = typer.Argument(help="The folder of the table.")
OPTION = typer.Option(None, "--option", "-o", help="A hoodie.* or penstock.* option, as key=value; may be repeated.")


def print_version(is_asked: bool) -> None:
    """Print the version of Penstock and end the program, if `--version` is on the command line."""
    if is_asked:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


VERSION = typer.Option(False, "--version", callback=print_version, is_eager=True, help="Print the version and exit.")


def describe_program(version: bool = VERSION) -> None:
    """Do nothing. Typer calls this function before every command; its parameters are the options of the program itself."""


def parse_options(given: list[str] | None) -> dict[str, object]:
    """Return the options that the command line sets with `--option key=value`, by their keys.

    Args:
        given: the value of each `--option` argument; None: there are none.

    Raises:
        OptionError: an argument is not of the form key=value.
    """
    options: dict[str, object] = {}
    for argument in given or ():
        key, equals, value = argument.partition("=")
        if not equals or not key.strip():
            # The argument may be a secret, such as the value of an option that was split at a space.
            raise OptionError("an --option argument is not key=value; its text is not shown, because it may be a secret")
        options[key.strip()] = value.strip()
    return options

"""Command line arguments that several commands of `penstock` share."""

from __future__ import annotations

import typer

from penstock.errors import OptionError

PATH = typer.Argument(help="The folder of the table.")
OPTION = typer.Option(None, "--option", "-o", help="A hoodie.* or penstock.* option, as key=value; may be repeated.")


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
            raise OptionError(f"--option {argument!r} is not key=value")
        options[key.strip()] = value.strip()
    return options

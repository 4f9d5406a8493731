"""Command line arguments that several commands share."""

from __future__ import annotations

import typer

from penstock.errors import OptionError

PATH = typer.Argument(help="The folder of the table.")
OPTION = typer.Option(None, "--option", "-o", help="A hoodie.* or penstock.* option, as key=value; may be repeated.")


def parse_options(given: list[str] | None) -> dict[str, object]:
    """Return the values of `--option key=value` arguments as a dict of options.

    Raises:
        OptionError: an argument is not key=value.
    """
    options: dict[str, object] = {}
    for argument in given or ():
        key, equals, value = argument.partition("=")
        if not equals or not key.strip():
            raise OptionError(f"--option {argument!r} is not key=value")
        options[key.strip()] = value.strip()
    return options

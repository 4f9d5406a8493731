"""Arguments that several commands take, and what they say."""

from __future__ import annotations

import typer

from penstock.errors import OptionError

PATH = typer.Argument(help="The table's folder.")
OPTION = typer.Option(None, "--option", "-o", help="A hoodie.* or penstock.* option, as key=value; may be given again.")


def options_of(given: list[str] | None) -> dict[str, object]:
    """Options by their keys. Raises OptionError for what is not key=value."""
    found: dict[str, object] = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise OptionError(f"--option {one!r} is not key=value")
        found[key.strip()] = value.strip()
    return found

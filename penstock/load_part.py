"""Imports a class or function by the text that a table of names of the package holds, such as `LOCKS` or `INDEXES`."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any


def load_part(reference: str) -> Any:
    """Import a class or function, for a reference such as `penstock.index.simple:SimpleIndex`.

    Args:
        reference: a constant of the package, never a text from an option or from a table's files.
    """
    module, _, name = reference.partition(":")
    return attrgetter(name)(import_module(module))

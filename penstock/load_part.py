"""Imports a class or function by a reference `module:name`, as maps of the package such as `LOCKS` or `INDEXES` hold it."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any


def load_part(reference: str) -> Any:
    """Import and return the class or function of a reference such as `penstock.index.simple:SimpleIndex`.

    Args:
        reference: a constant of the package, never a text from an option or from a table's files.
    """
    module, _, name = reference.partition(":")
    return attrgetter(name)(import_module(module))

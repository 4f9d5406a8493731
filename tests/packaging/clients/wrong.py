"""A program with one mistake in each line that ends with `# error`. Type checkers report these lines and no other."""

from __future__ import annotations

from penstock import Table


def mistakes(table: Table) -> None:
    """Make each mistake once."""
    table.upsert()  # error
    table.history(limit="1")  # error
    table.compact(instants="20260101000000000")  # error
    table.upsrt([])  # error
    table.history()[0].instant + 1  # error

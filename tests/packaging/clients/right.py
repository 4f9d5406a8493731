"""A program of a user that type checkers accept: every value has the type that it names."""

from __future__ import annotations

import penstock
from penstock import Commit, Table
from penstock.errors import WriteConflict


def write(path: str) -> int | None:
    """Create a table, write to it, and name what is returned."""
    spark = penstock.session()
    table: Table = Table.create(path, schema="id string, fare double", name="trips", record_key="id", spark=spark)
    try:
        commit: Commit = table.upsert([{"id": "a", "fare": 1.5}], options={"hoodie.upsert.shuffle.parallelism": 2})
    except WriteConflict as conflict:
        print(conflict.other_instant)
        return None
    newest: str = table.history(limit=1)[0].instant
    version: str = penstock.__version__
    print(table.to_arrow(columns=["fare"]).num_rows, newest.upper(), version.split("."))
    return commit.rows_inserted


@penstock.payload("newest_fare")
def newest_fare(old: dict[str, object], new: dict[str, object]) -> dict[str, object]:
    """Return the new row."""
    return new

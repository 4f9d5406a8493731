"""`KeyMerge`: what an upsert would do with one key, and why. `merge_plan.py` finds it out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.report_table import ColumnHead, ReportTable

Row = dict[str, Any]


class Outcome(str, Enum):
    """What an upsert would do with a key, for example insert, update or delete it."""

    INSERT = "insert"
    UPDATE = "update"
    #: The stored row stays unchanged.
    KEEP = "keep"
    DELETE = "delete"
    #: The row is updated and goes to another partition.
    MOVE = "move"
    #: The key is not in the table, and the upsert does not insert it.
    NOTHING = "nothing"


@dataclass(frozen=True)
class KeyMerge:
    """What an upsert would do with one key, and why: with the stored row, the incoming row, and the row after the upsert."""

    key: str
    #: The partition path of the key's row after the upsert.
    partition: str
    #: How many incoming rows have this key.
    rows: int
    outcome: Outcome
    #: The reason for the outcome, in words.
    why: str
    #: The payload class or merger that decides.
    payload: str
    #: The values of the ordering column as strings; None if there is no row, no ordering column, or the value is null.
    stored_ordering: str | None
    incoming_ordering: str | None
    #: The stored row, the incoming row (combined, if there are several), and the row that will be stored.
    stored: Row | None
    incoming: Row
    result: Row | None

    def _repr_html_(self) -> str:
        """Return the outcome and the three rows as an HTML table with one line per column, for notebooks."""
        rows_of_key = (self.stored, self.incoming, self.result)
        names: dict[str, None] = {}
        for row in rows_of_key:
            names |= dict.fromkeys(row or ())
        lines = []
        for name in names:
            lines.append([name, *("" if row is None else repr(row.get(name)) for row in rows_of_key)])
        heads = [ColumnHead(title) for title in ("column", "stored", "incoming", "result")]
        return ReportTable(f"{self.outcome.value} of key {self.key}: {self.why}", heads, lines).to_html()

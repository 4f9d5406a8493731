"""A dictionary that holds what a table should hold after upserts and deletes, merged row by row by Hudi's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: id, partition path, ordering value, some value, and whether the row is a delete.
Row = tuple[str, str, int, Any, bool]


@dataclass
class Model:
    """Rows by (partition path, id): (ordering value, value, number of the write that wrote it)."""

    #: Whether keys are looked up in all partitions.
    is_global: bool = False
    #: Whether a row whose partition changed moves.
    moves: bool = False
    #: Whether the greater ordering value wins against the stored row (DefaultHoodieRecordPayload), not the later write.
    by_ordering: bool = False
    rows: dict[tuple[str, str], tuple[int, Any, int]] = field(default_factory=dict)
    writes: int = 0

    def upsert(self, batch: Sequence[Row]) -> None:
        """Apply one upsert: reduce the batch to the newest row of each key, then merge it."""
        self.writes += 1
        newest: dict[Any, Row] = {}
        for row in batch:
            key = row[0] if self.is_global else row[:2]
            if key not in newest or row[2] >= newest[key][2]:
                newest[key] = row
        for row in newest.values():
            self._merge(row)

    def _merge(self, row: Row) -> None:
        key, path, ts, value, deleted = row
        places = [p for p, k in self.rows if k == key and (self.is_global or p == path)]
        if not places and not deleted:
            self.rows[path, key] = (ts, value, self.writes)
        for place in places:
            stored = self.rows[place, key]
            away = self.moves and place != path
            if self.by_ordering and stored[0] > ts:
                if away and not deleted:  # the stored row wins, stays in its partition and is written again
                    self.rows[place, key] = (*stored[:2], self.writes)
                continue
            del self.rows[place, key]
            if not deleted:
                self.rows[path if away else place, key] = (ts, value, self.writes)

    def delete(self, batch: Sequence[Row]) -> None:
        """Apply one delete operation: remove the keys, whatever their ordering values. Unknown keys are ignored."""
        self.writes += 1
        gone = {row[0] if self.is_global else row[:2] for row in batch}
        self.rows = {(p, k): v for (p, k), v in self.rows.items() if (k if self.is_global else (k, p)) not in gone}

    def sorted_rows(self) -> list[tuple[Any, ...]]:
        """Return (path, id, ordering value, value, write) of every row, sorted."""
        return sorted(((p, k, *v) for (p, k), v in self.rows.items()), key=repr)

"""A function over dictionaries as one that mergers call: the one place where records are looped over in Python.

`merge(old, new)` gets a row of each, or None and a row where there is no old one, and gives the merged row or None: the key is
gone. Its rows are turned into Python's values and back, some thousands at a time; `bench/own_payloads.py` measures the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.user.by_column import Joined, checked
from penstock.merge.user.guard import Guard, Steps
from penstock.registry import Registered

_AT_ONCE = 10_000

Row = dict[str, Any]


@dataclass(frozen=True)
class ByRow:
    """A payload of the user's own: one pair at a time."""

    registered: Registered
    guard: Guard

    def join(self, old: pa.Table, new: pa.Table) -> Joined:
        return self._joined(old, new)

    def begin(self, new: pa.Table) -> Joined:
        return self._joined(None, new)

    def _joined(self, old: pa.Table | None, new: pa.Table) -> Joined:
        """All pairs, in parts that are small enough to be in memory as Python's objects."""
        starts = range(0, new.num_rows, _AT_ONCE) if new.num_rows else [0]
        parts = [self._part(None if old is None else old.slice(at, _AT_ONCE), new.slice(at, _AT_ONCE)) for at in starts]
        return Joined(pa.concat_tables([part.rows for part in parts]), np.concatenate([part.gone for part in parts]))

    def _part(self, old: pa.Table | None, new: pa.Table) -> Joined:
        made = self.guard.run(lambda steps: self._merge(old, new, steps), new)
        gone = np.fromiter((row is None or row.get(DELETE_FLAG) is True for row in made), np.bool_, len(made))
        at = np.flatnonzero(~gone)
        if gone.any():
            kept = pa.array(~gone)
            new, old = new.filter(kept), None if old is None else old.filter(kept)
        stay = [made[i] for i in at.tolist()]
        return Joined(checked(self.guard, self._table(stay, new), old, new).rows, gone)

    def _merge(self, old: pa.Table | None, new: pa.Table, steps: Steps) -> list[Any]:
        """What the function says about each pair, one after the other."""
        function, wanted = self.registered.function, set(new.column_names)
        olds: Sequence[Row | None] = [None] * new.num_rows if old is None else old.to_pylist()
        made = []
        for at, (before, after) in enumerate(zip(olds, new.to_pylist(), strict=True)):
            steps.at = at
            row = function(before, after)
            if row is not None:
                self._check(row, wanted, new, at)
            made.append(row)
        return made

    def _check(self, row: Any, wanted: set[str], new: pa.Table, at: int) -> None:
        if not isinstance(row, dict):
            raise self.guard.failed(f"gave back a {type(row).__name__}, neither a dict nor None,", new, at)
        if row.keys() == wanted:
            return
        missing, extra = wanted - row.keys(), row.keys() - wanted - {DELETE_FLAG}
        if missing or extra:
            wrong = [f"without {sorted(missing)}"] if missing else []
            wrong += [f"with {sorted(map(str, extra))} beside the table's columns"] if extra else []
            raise self.guard.failed(f"gave back a row {' and '.join(wrong)},", new, at)

    def _table(self, rows: list[Row], new: pa.Table) -> pa.Table:
        columns = [self._column([row[field.name] for row in rows], field, new) for field in new.schema]
        return pa.table(columns, schema=new.schema)

    def _column(self, values: list[Any], field: pa.Field, new: pa.Table) -> pa.Array:
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            at = next((i for i, value in enumerate(values) if not _fits(value, field)), 0)
            said = f"gave back {values[at]!r} for column {field.name!r}, which is {field.type},"
            raise self.guard.failed(said, new, at, str(e)) from e


def _fits(value: Any, field: pa.Field) -> bool:
    try:
        pa.array([value], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True

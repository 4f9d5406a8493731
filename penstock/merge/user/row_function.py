"""`@penstock.payload`: a user's function over dictionaries. The only module that loops over rows in Python.

The user's function is called as `function(old, new)` with two rows, or with None and a row if there is no old row. It returns the
merged row, or None to delete the key. Rows are converted to Python values and back, some thousands at a time;
`bench/own_payloads.py` measures the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.user.check_rows import check_rows
from penstock.merge.user.function import JoinedRows
from penstock.merge.user.guard import CallProgress, Guard
from penstock.registered.registry import Registered

#: Pairs of rows that are in memory as Python objects at a time.
_ROWS_AT_A_TIME = 10_000

Row = dict[str, Any]


@dataclass(frozen=True)
class RowFunction:
    """A user's function that takes one old row and one new row as dictionaries. Users register it with `@penstock.payload`."""

    registered: Registered
    guard: Guard

    def join(self, old: pa.Table, new: pa.Table) -> JoinedRows:
        """Call the user's function once for each pair: row i of `old` and row i of `new`. Return the checked rows."""
        return self._call_for_all(old, new)

    def begin(self, new: pa.Table) -> JoinedRows:
        """Call the user's function for each row of `new`, with None as the old row; check the returned rows, and return them."""
        return self._call_for_all(None, new)

    def _call_for_all(self, old: pa.Table | None, new: pa.Table) -> JoinedRows:
        """Call the user's function once for each pair: row i of `old` and row i of `new`. Return the checked results.

        Rows are converted to dictionaries `_ROWS_AT_A_TIME` at a time. `old` is None if the keys have no old rows.
        """
        rows = []
        gone = []
        for start in range(0, max(new.num_rows, 1), _ROWS_AT_A_TIME):
            old_part = None if old is None else old.slice(start, _ROWS_AT_A_TIME)
            joined = self._call_for_part(old_part, new.slice(start, _ROWS_AT_A_TIME))
            rows.append(joined.rows)
            gone.append(joined.gone)
        return JoinedRows(pa.concat_tables(rows), np.concatenate(gone))

    def _call_for_part(self, old: pa.Table | None, new: pa.Table) -> JoinedRows:
        """Call the user's function for each pair of at most `_ROWS_AT_A_TIME` pairs, under the guard's time limit.

        A pair is row i of `old` and row i of `new`. The dictionaries that the function returns are checked and returned as Arrow
        rows.
        """

        def call(progress: CallProgress) -> list[Any]:
            return self._call_for_each(old, new, progress)

        returned = self.guard.call(call, new)
        gone = np.fromiter((row is None or row.get(DELETE_FLAG) is True for row in returned), np.bool_, len(returned))
        kept_rows = [returned[at] for at in np.flatnonzero(~gone).tolist()]
        if gone.any():
            kept = pa.array(~gone)
            new = new.filter(kept)
            old = None if old is None else old.filter(kept)
        return JoinedRows(check_rows(self.guard, self._to_table(kept_rows, new), old, new).rows, gone)

    def _call_for_each(self, old: pa.Table | None, new: pa.Table, progress: CallProgress) -> list[Any]:
        """Return what the user's function returned for each row of `new`: a dictionary, or None to delete the key.

        Args:
            old: the old rows, row i for row i of `new`; None if the keys have no old rows.
            progress: receives the position of the current row.
        """
        function = self.registered.function
        expected = set(new.column_names)
        old_rows: Sequence[Row | None] = [None] * new.num_rows if old is None else old.to_pylist()
        returned = []
        for at, (old_row, new_row) in enumerate(zip(old_rows, new.to_pylist(), strict=True)):
            progress.at = at
            row = function(old_row, new_row)
            if row is not None:
                self._check_row(row, expected, new, at)
            returned.append(row)
        return returned

    def _check_row(self, row: Any, expected: set[str], new: pa.Table, at: int) -> None:
        """Raise PayloadError if the user's function returned no dictionary, or one whose keys are not the table's columns.

        Args:
            row: what the function returned.
            expected: the names of the table's columns. The dictionary may also have the key `_hoodie_is_deleted`.
            new: the new rows, to name the record key in the error.
            at: the position in `new` of the row for which the function was called.
        """
        if not isinstance(row, dict):
            raise self.guard.make_error(f"returned a {type(row).__name__}, neither a dict nor None,", new, at)
        if row.keys() == expected:
            return
        missing = expected - row.keys()
        extra = row.keys() - expected - {DELETE_FLAG}
        wrong = []
        if missing:
            wrong.append(f"without {sorted(missing)}")
        if extra:
            wrong.append(f"with {sorted(map(str, extra))} besides the table's columns")
        if wrong:
            raise self.guard.make_error(f"returned a row {' and '.join(wrong)},", new, at)

    def _to_table(self, rows: list[Row], new: pa.Table) -> pa.Table:
        """Return the dictionaries as a table with the schema of `new`."""
        columns = [self._to_column([row[field.name] for row in rows], field, new) for field in new.schema]
        return pa.table(columns, schema=new.schema)

    def _to_column(self, values: list[Any], field: pa.Field, new: pa.Table) -> pa.Array:
        """Return the values as an array of the field's type.

        Raise PayloadError about the first value that Arrow cannot convert.
        """
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            at = next((number for number, value in enumerate(values) if not _fits(value, field)), 0)
            problem = f"returned {values[at]!r} for column {field.name!r}, which is {field.type},"
            raise self.guard.make_error(problem, new, at, str(e)) from e


def _fits(value: Any, field: pa.Field) -> bool:
    """Whether Arrow can convert the Python value to the field's type."""
    try:
        pa.array([value], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True

"""`@penstock.merger`: a user's function over Arrow tables.

The function is called with a table of old rows and a table of new rows, and returns a table. Row i of all three has the same key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.user.check_rows import check_rows
from penstock.merge.user.function import JoinedRows
from penstock.merge.user.guard import CallProgress, Guard
from penstock.registered.registry import Registered


@dataclass(frozen=True)
class ColumnFunction:
    """A user's function that takes an Arrow table of old rows and one of new rows, and merges all of them in one call.

    Users register it with `@penstock.merger`.
    """

    registered: Registered
    guard: Guard

    def join(self, old: pa.Table, new: pa.Table) -> JoinedRows:
        """Call the user's function once, with all old and all new rows. Check the rows that it returns, and return them."""

        def call(_: CallProgress) -> Any:
            return self.registered.function(old, new)

        returned = self.guard.call(call, new)
        self._check_table(returned, new)
        return check_rows(self.guard, returned, old, new)

    def begin(self, new: pa.Table) -> JoinedRows:
        """Return the rows of new keys unchanged. The user's function is not called: it needs an old row for each new one."""
        return JoinedRows(new, np.zeros(new.num_rows, np.bool_))

    def _check_table(self, returned: Any, new: pa.Table) -> None:
        """Raise PayloadError unless the user's function returned a pyarrow.Table with as many rows as `new`."""
        if not isinstance(returned, pa.Table):
            raise self.guard.make_error(f"returned a {type(returned).__name__}, not a pyarrow.Table,", new, 0)
        if returned.num_rows != new.num_rows:
            problem = f"returned {returned.num_rows} rows for {new.num_rows} pairs of rows, the first of them"
            fix = f"Say that a key is gone by a boolean column {DELETE_FLAG!r}, not by leaving it out."
            raise self.guard.make_error(problem, new, 0, fix)

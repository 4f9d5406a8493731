"""The interface between `UserMerger` and a user's merge function: `UserFunction`, and `JoinedRows`, the result of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.merge.kernels.gather import Flags
from penstock.merge.user.guard import Guard


@dataclass(frozen=True)
class JoinedRows:
    """The rows that a user's function returned for (old, new) pairs of rows with the same key.

    `gone` is a mask over the pairs, true where the function returned no row: the key is to be deleted. `rows` has one row for
    each other pair, in the order of the pairs.
    """

    #: One row for each pair that is not gone, in the order of the pairs.
    rows: pa.Table
    #: A mask over the pairs, true where the function returned no row: the key is to be deleted.
    gone: Flags


class UserFunction(Protocol):
    """A user's merge function, called row by row or with whole tables. The rows have only data columns, no meta columns."""

    @property
    def guard(self) -> Guard:
        """The `Guard` that calls the user's function and turns its errors into PayloadError."""

    def join(self, old: pa.Table, new: pa.Table) -> JoinedRows:
        """Return the merged row for each pair of rows: row i of `old` and row i of `new`. All tables have the same columns."""

    def begin(self, new: pa.Table) -> JoinedRows:
        """Return the rows to write for keys that have no old row. `new` has the incoming rows of these keys."""

"""What a user's function looks like to the merger: `UserFunction`, and `JoinedRows`, what a call of it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.merge.kernels.gather import Flags
from penstock.merge.user.guard import Guard


@dataclass(frozen=True)
class JoinedRows:
    """The rows that a function returned for pairs of rows, and the pairs for which it returned none: their keys are deleted."""

    rows: pa.Table
    gone: Flags


class UserFunction(Protocol):
    """A function of the user's own, row by row or column by column. The tables hold data columns alone, no meta columns."""

    @property
    def guard(self) -> Guard:
        """What calls the function, and words its errors."""

    def join(self, old: pa.Table, new: pa.Table) -> JoinedRows:
        """Return one row for each pair. Both tables, and the rows that are returned, have the same columns."""

    def begin(self, new: pa.Table) -> JoinedRows:
        """Return rows as they are stored if there is no old row."""

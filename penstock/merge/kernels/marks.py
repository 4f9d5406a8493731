"""Marks: boolean columns that a write adds to incoming rows. They record for the merger what happened to a row before the merge.

Marks travel in staged files and between kernels. They are never stored in a table.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.merge.kernels.gather import Flags

#: The key was deleted before this row came, so no value of the stored row may go into the merged row.
FRESH = "_penstock_fresh"
#: The rows of this key in the batch were combined to nothing: the key is to be deleted.
GONE = "_penstock_gone"
#: The row was already merged with the stored row, in the partition that it leaves. It is stored unchanged.
MADE = "_penstock_made"


def is_fresh(rows: pa.Table) -> Flags:
    """Return a mask over the incoming rows, true where the merged row must take no value from the stored row.

    A row is marked so if a delete of its key came before it in the batch or log. Reads the boolean column `FRESH`; all false
    without it.
    """
    return _marked(rows, FRESH)


def is_gone(rows: pa.Table) -> Flags:
    """Return a mask over the incoming rows, true where the row only says that its key is to be deleted.

    This happens if a user's merge function returned no row for the rows of the key in the batch. Reads the boolean column `GONE`;
    all false without it.
    """
    return _marked(rows, GONE)


def is_made(rows: pa.Table) -> Flags:
    """Return a mask over the incoming rows, true where the row was already merged with the stored row, in another partition.

    Reads the boolean column `MADE`; all false without it.
    """
    return _marked(rows, MADE)


def drop_marks(rows: pa.Table) -> pa.Table:
    """Return the rows without the columns `FRESH`, `GONE` and `MADE`, which a write adds to incoming rows for the merger."""
    marks = [name for name in (FRESH, GONE, MADE) if name in rows.column_names]
    return rows.drop_columns(marks) if marks else rows


def _marked(rows: pa.Table, column: str) -> Flags:
    """Return the boolean column `column` as a mask over the rows; all false if the rows have no such column."""
    if column not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(rows[column], dtype=np.bool_)

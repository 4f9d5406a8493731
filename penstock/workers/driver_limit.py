"""Decides whether work is small enough for the driver. For small work, starting Spark tasks takes longer than the work itself."""

from __future__ import annotations

from penstock import options as o
from penstock.options import Options


def fits_on_driver(options: Options, *, rows: int | None = None, size_bytes: int = 0) -> bool:
    """Whether work on this many rows and bytes is small enough to run on the driver, without Spark tasks.

    The work is small if it exceeds neither `penstock.small.batch.rows` nor `penstock.small.batch.bytes`.

    Args:
        options: the options, with both limits.
        rows: the number of rows. None: the number is unknown, and only the bytes are compared; but if the row limit is 0, the
            work is never small enough.
        size_bytes: the number of bytes to read. 0: only the rows are compared.
    """
    rows_max = options[o.SMALL_BATCH_ROWS]
    has_few_rows = rows_max > 0 if rows is None else rows <= rows_max
    return has_few_rows and size_bytes <= options[o.SMALL_BATCH_BYTES]

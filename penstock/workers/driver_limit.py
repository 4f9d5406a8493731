"""Decides whether work is small enough for the driver. For small work, starting Spark tasks takes longer than the work itself."""

from __future__ import annotations

from penstock import options as o
from penstock.options import Options


def fits_on_driver(options: Options, *, rows: int | None = None, size_bytes: int = 0) -> bool:
    """Whether work on this many rows and bytes is small enough to run on the driver, without Spark tasks.

    Args:
        options: the options with the limits `penstock.small.batch.rows` and `penstock.small.batch.bytes`.
        rows: the number of rows; None if unknown. Then the row limit is ignored, except that a limit of 0 means: never on the
            driver.
        size_bytes: the number of bytes to read; 0 to ignore the limit of bytes.
    """
    rows_max = options[o.SMALL_BATCH_ROWS]
    has_few_rows = rows_max > 0 if rows is None else rows <= rows_max
    return has_few_rows and size_bytes <= options[o.SMALL_BATCH_BYTES]

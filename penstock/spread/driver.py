"""Which work is small enough for the driver, where starting Spark tasks would take longer than the work itself."""

from __future__ import annotations

from penstock import options as o
from penstock.options import Options


def fits_on_driver(options: Options, *, rows: int | None = None, size_bytes: int = 0) -> bool:
    """Whether work on this many rows and bytes runs on the driver, without Spark tasks.

    Args:
        options: `penstock.small.batch.rows` and `penstock.small.batch.bytes` are the limits.
        rows: None where the number of rows is not known. Then `penstock.small.batch.rows` only says whether the driver works
            at all: 0 turns that off.
        size_bytes: leave it out where bytes do not count.
    """
    rows_max = options[o.SMALL_BATCH_ROWS]
    has_few_rows = rows_max > 0 if rows is None else rows <= rows_max
    return has_few_rows and size_bytes <= options[o.SMALL_BATCH_BYTES]

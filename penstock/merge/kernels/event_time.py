"""Event times of rows: the least and the greatest, in milliseconds since the epoch.

Hudi stores both in the write stats of a file.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import find_column


@dataclass(frozen=True)
class EventTimeSpan:
    """The least and the greatest event time of some rows, in milliseconds since the epoch.

    Both are None if no row has an event time.
    """

    least_ms: int | None = None
    greatest_ms: int | None = None

    def extend(self, more: EventTimeSpan) -> EventTimeSpan:
        """Return the span from the lesser `least_ms` to the greater `greatest_ms` of the two spans."""
        least = [value for value in (self.least_ms, more.least_ms) if value is not None]
        greatest = [value for value in (self.greatest_ms, more.greatest_ms) if value is not None]
        return EventTimeSpan(min(least, default=None), max(greatest, default=None))

    def freshness_ms(self, commit_ms: int) -> int | None:
        """Return the age of the newest row at the time of its commit; None if no row has an event time.

        Args:
            commit_ms: the time of the commit, in milliseconds since the epoch.
        """
        return None if self.greatest_ms is None else commit_ms - self.greatest_ms

    def latency_ms(self, commit_ms: int) -> int | None:
        """Return the age of the oldest row at the time of its commit; None if no row has an event time.

        Args:
            commit_ms: the time of the commit, in milliseconds since the epoch.
        """
        return None if self.least_ms is None else commit_ms - self.least_ms


def find_event_times(rows: pa.Table, column: str) -> EventTimeSpan:
    """Return the least and the greatest event time in a column of the rows.

    A value of 10 digits counts as seconds since the epoch, one of 13 digits as milliseconds. Other values are skipped, as in
    Hudi.
    """
    values = find_column(rows, column)
    if values is None or rows.num_rows == 0 or pa.types.is_nested(values.type):
        return EventTimeSpan()
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    # Hudi goes by the number of digits in the text form, whatever the type of the column.
    texts = values.cast(pa.string())
    is_readable = pc.fill_null(pc.match_substring_regex(texts, r"^([0-9]{10}|[0-9]{13})$"), False)
    numbers = texts.filter(is_readable).cast(pa.int64())
    in_ms = pc.if_else(pc.less(numbers, 10**10), pc.multiply(numbers, 1000), numbers)
    span = pc.min_max(in_ms).as_py()
    return EventTimeSpan(span["min"], span["max"])

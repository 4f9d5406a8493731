"""Event times of rows: the least and the greatest, as write stats carry them, in milliseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import column_at


@dataclass(frozen=True)
class EventTimes:
    """The span of event times of some rows; None: no row had one that is understood."""

    least_ms: int | None = None
    greatest_ms: int | None = None

    def with_more(self, other: EventTimes) -> EventTimes:
        """The span of both."""
        least = [v for v in (self.least_ms, other.least_ms) if v is not None]
        greatest = [v for v in (self.greatest_ms, other.greatest_ms) if v is not None]
        return EventTimes(min(least, default=None), max(greatest, default=None))

    def freshness_ms(self, commit_ms: int) -> int | None:
        """How old the newest row was when it was committed."""
        return None if self.greatest_ms is None else commit_ms - self.greatest_ms

    def latency_ms(self, commit_ms: int) -> int | None:
        """How old the oldest row was when it was committed."""
        return None if self.least_ms is None else commit_ms - self.least_ms


def event_times(rows: pa.Table, column: str) -> EventTimes:
    """Event times of rows. Values of 10 digits are seconds, of 13 milliseconds; others are passed over."""
    values = column_at(rows, column)
    if values is None or rows.num_rows == 0 or pa.types.is_nested(values.type):
        return EventTimes()
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    texts = values.cast(pa.string())
    digits = pc.fill_null(pc.match_substring_regex(texts, r"^([0-9]{10}|[0-9]{13})$"), False)
    numbers = texts.filter(digits).cast(pa.int64())
    in_ms = pc.if_else(pc.less(numbers, 10**10), pc.multiply(numbers, 1000), numbers)
    span = pc.min_max(in_ms).as_py()
    return EventTimes(span["min"], span["max"])

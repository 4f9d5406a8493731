"""Options of structured streaming: a table as sink and as source of a stream."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Family, Option, boolean, count, positive, word

_STREAM: Final = "hoodie.datasource.write.streaming."
_WAITS: Final = "structured streaming"

STREAMER: Final = Family("hoodie.streamer.", "HoodieStreamer, a separate program; no effect on DataFrame writes in Hudi either.")
DELTA_STREAMER: Final = Family("hoodie.deltastreamer.", "The same program under its old name.")

STREAMING_RETRY_COUNT: Final = Option(
    f"{_STREAM}retry.count",
    positive,
    3,
    "Attempts per batch, the first included.",
    waits_for=_WAITS,
)
STREAMING_RETRY_INTERVAL_MS: Final = Option(
    f"{_STREAM}retry.interval.ms",
    count,
    2000,
    "Pause after the first attempt; it doubles with each.",
    waits_for=_WAITS,
)
STREAMING_IGNORE_FAILED_BATCH: Final = Option(
    f"{_STREAM}ignore.failed.batch",
    boolean,
    False,
    "Go on with the next batch when all attempts failed; the rows of the batch are lost.",
    waits_for=_WAITS,
)
STREAMING_CHECKPOINT_ID: Final = Option(
    f"{_STREAM}checkpoint.identifier",
    word,
    "default_single_writer",
    "Name under which the stream notes its last batch in the commit.",
    waits_for=_WAITS,
)
STREAMING_DISABLE_COMPACTION: Final = Option(
    f"{_STREAM}disable.compaction",
    boolean,
    False,
    "Do not compact beside the stream.",
    waits_for=_WAITS,
)
STREAMING_START_OFFSET: Final = Option(
    "hoodie.datasource.streaming.startOffset",
    word,
    "earliest",
    "Where a stream that reads the table begins: earliest, latest or an instant.",
    waits_for=_WAITS,
)

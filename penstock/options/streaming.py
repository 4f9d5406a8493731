"""Options of structured streaming: a table as sink and as source of a stream."""

from __future__ import annotations

from typing import Final

from penstock.options.features import STREAM_SOURCE
from penstock.options.option import Family, Option, boolean, count, positive, word

_STREAM: Final = "hoodie.datasource.write.streaming."

STREAMER: Final = Family(
    "hoodie.streamer.", "Options of the separate program HoodieStreamer. They have no effect on DataFrame writes in Hudi either."
)
DELTA_STREAMER: Final = Family("hoodie.deltastreamer.", "Options of HoodieStreamer under its old name.")

STREAMING_RETRY_COUNT: Final = Option(
    f"{_STREAM}retry.count",
    positive,
    3,
    "Number of attempts per batch, including the first.",
)
STREAMING_RETRY_INTERVAL_MS: Final = Option(
    f"{_STREAM}retry.interval.ms",
    count,
    2000,
    "Milliseconds before the second attempt. They double with each attempt.",
)
STREAMING_IGNORE_FAILED_BATCH: Final = Option(
    f"{_STREAM}ignore.failed.batch",
    boolean,
    False,
    "Continue with the next batch if all attempts failed. The rows of the failed batch are lost; `Table.given_up_batches` lists "
    "such batches.",
)
STREAMING_CHECKPOINT_ID: Final = Option(
    f"{_STREAM}checkpoint.identifier",
    word,
    "default_single_writer",
    "Name under which a stream stores its last batch in the commit.",
)
STREAMING_DISABLE_COMPACTION: Final = Option(
    f"{_STREAM}disable.compaction",
    boolean,
    False,
    "Do not compact concurrently with the stream.",
)
STREAMING_START_OFFSET: Final = Option(
    "hoodie.datasource.streaming.startOffset",
    word,
    "earliest",
    "Where a stream that reads the table starts: earliest, latest or an instant time.",
    waits_for=STREAM_SOURCE,
)

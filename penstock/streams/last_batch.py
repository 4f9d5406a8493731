"""Stores the number of a stream's batch in the extra metadata of the batch's commit, and finds the last batch of a stream.

The entry holds the identifier of the stream and the number of the batch under Hudi's key, so Hudi and Penstock read each other's
entries. Penstock adds the id of the Spark checkpoint, which tells apart two streams that use one identifier.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from penstock.table.state import TableState
from penstock.timeline.history import InstantRange, list_writes
from penstock.timeline.store import read_metadata

#: Hudi's key. The value is a JSON map from identifier to batch number, both strings.
BATCH_KEY = "_hudi_streaming_sink_checkpoint"
#: Penstock's key. The value is the id of the Spark checkpoint from which the batch came (`checkpoint.py`).
CHECKPOINT_KEY = "penstock.stream.checkpoint"


@dataclass(frozen=True)
class StreamBatch:
    """One batch of a stream, as its commit records it."""

    identifier: str
    number: int
    #: The id of the Spark checkpoint; None: a writer of real Hudi wrote the commit.
    checkpoint: str | None

    def encode(self) -> dict[str, str]:
        """Return the entries for the extra metadata of the batch's commit."""
        entries = {BATCH_KEY: json.dumps({self.identifier: str(self.number)}, separators=(",", ":"))}
        if self.checkpoint is not None:
            entries[CHECKPOINT_KEY] = self.checkpoint
        return entries


def read_batch(extra: Mapping[str, str], identifier: str) -> StreamBatch | None:
    """Return the batch of a stream that a commit holds; None if it holds no batch of the stream.

    Args:
        extra: the extra metadata of the commit.
        identifier: the identifier of the stream.
    """
    try:
        number = json.loads(extra.get(BATCH_KEY) or "{}").get(identifier)
        return None if number is None else StreamBatch(identifier, int(number), extra.get(CHECKPOINT_KEY))
    except (ValueError, TypeError, AttributeError):  # another program uses the key in its own way
        return None


def find_last_batch(table: TableState, identifier: str) -> StreamBatch | None:
    """Return the newest batch of a stream that is committed to the table; None if there is none.

    Commits are read from the newest to the oldest. The archived timeline is read only if no active commit is of the stream:
    other writers may have committed often since the stream's last batch.

    Args:
        identifier: the identifier of the stream, `hoodie.datasource.write.streaming.checkpoint.identifier`.
    """
    for instant in reversed(table.timeline.writes):
        with suppress(FileNotFoundError):  # archived since the timeline was loaded
            batch = read_batch(read_metadata(table.storage, table.base_path, instant).extra, identifier)
            if batch is not None:
                return batch
    return _find_archived_batch(table, identifier)


def _find_archived_batch(table: TableState, identifier: str) -> StreamBatch | None:
    """Return the newest batch of a stream on the archived timeline; None if there is none."""
    start = table.timeline.start
    if start is None:
        return None
    archived = list_writes(table.storage, table.base_path, table.timeline, InstantRange("", start), table.config.archive_folder)
    for write in reversed(archived):
        batch = read_batch(write.metadata.extra, identifier)
        if batch is not None:
            return batch
    return None

"""Batches that a stream gave up: one file each below `.hoodie/.penstock/given_up` of the table.

`hoodie.datasource.write.streaming.ignore.failed.batch=true` lets a stream go on after a batch that could not be written. Spark
does not read the rows of that batch again, so the files are the only trace of them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from penstock.storage import Storage, join
from penstock.table.state import TableState
from penstock.timeline.store import FOLDER

GIVEN_UP_FOLDER = join(FOLDER, ".penstock", "given_up")


@dataclass(frozen=True)
class GivenUpBatch:
    """A batch that a stream gave up after all attempts to write it had failed."""

    #: The identifier of the stream.
    identifier: str
    #: The number of the batch.
    batch: int
    #: The time of the last attempt, in milliseconds since the epoch.
    time_ms: int
    attempts: int
    #: Type and message of the last error.
    error: str
    #: The folder of the stream's checkpoint. Its `offsets/<batch>` names the rows of the batch.
    checkpoint_location: str


def record_given_up(storage: Storage, base_path: str, batch: GivenUpBatch) -> str:
    """Store that a stream gave up a batch. Return the path of the file."""
    path = join(base_path, GIVEN_UP_FOLDER, f"{batch.time_ms}_{batch.batch}.json")
    storage.replace(path, json.dumps(asdict(batch), indent=1).encode())
    return path


def list_given_up(table: TableState) -> list[GivenUpBatch]:
    """Return the batches of all streams to the table that were given up, oldest first."""
    found = []
    for file in table.storage.list(join(table.base_path, GIVEN_UP_FOLDER)):
        found.append(GivenUpBatch(**json.loads(table.storage.read(file.path))))
    return sorted(found, key=lambda batch: (batch.time_ms, batch.batch))

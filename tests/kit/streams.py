"""Streams for tests: a folder of JSON files as source, one file per batch, and streams from it into Hudi tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = "id string, city string, ts bigint, fare double"
BATCH_KEY = "_hudi_streaming_sink_checkpoint"


@dataclass(frozen=True)
class Feed:
    """A folder of JSON files. A stream over it reads the files in the order in which they were put, one per batch."""

    folder: Path

    def put(self, *rows: tuple[Any, ...]) -> None:
        """Add one file with rows."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = len(list(self.folder.iterdir()))
        names = [column.split()[0] for column in COLUMNS.split(",")]
        text = "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        hidden = self.folder / f"_{number}"
        hidden.write_text(text)
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark orders files by time
        hidden.rename(self.folder / f"{number:06d}.json")

    def stream(self, spark: Any) -> Any:
        """Return the folder as a stream."""
        reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


def make_writer(rows: Any, checkpoint: Path, options: Mapping[str, Any]) -> Any:
    """Return a stream writer of format hudi with a checkpoint, which ends when it has read all rows."""
    writer = rows.writeStream.format("hudi").options(**options).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True)


def run_stream(rows: Any, path: str, checkpoint: Path, options: Mapping[str, Any]) -> None:
    """Write all rows of a stream that are available to a table, and wait until that is done."""
    make_writer(rows, checkpoint, options).start(path).awaitTermination()


def committed_batches(path: str) -> list[str]:
    """Return the batch entries of all completed commits of a table, oldest first."""
    found = []
    for file in _list_commits(path):
        entry = json.loads(file.read_text() or "{}").get("extraMetadata", {}).get(BATCH_KEY)
        if entry is not None:
            found.append(entry)
    return found


def _list_commits(path: str) -> Iterable[Path]:
    files = Path(path, ".hoodie").iterdir()
    return sorted(file for file in files if file.suffix in (".commit", ".deltacommit", ".replacecommit"))

"""Options of memory: how much a merge may hold, and where the rest goes."""

from __future__ import annotations

from typing import Final

from penstock.options.option import GIB, MIB, Option, boolean, fraction, positive, text, word

MERGE_MAX_BYTES: Final = Option(
    "hoodie.memory.merge.max.size",
    positive,
    GIB,
    "Bytes of incoming rows, or of folded log rows, that a merge holds before it spills.",
)
MERGE_FRACTION: Final = Option(
    "hoodie.memory.merge.fraction",
    fraction,
    0.6,
    "Share of a task's free memory that Hudi derives these bytes from. Here the bytes themselves count.",
    accepted=True,
)
SPILLABLE_MAP_PATH: Final[Option[str | None]] = Option(
    "hoodie.memory.spillable.map.path",
    text,
    None,
    "Folder for what does not fit. Without it the local folder of the executor, or the temporary folder.",
)
COMPACTION_MAX_BYTES: Final[Option[int | None]] = Option(
    "hoodie.memory.compaction.max.size",
    positive,
    None,
    "Bytes of log rows a compaction holds before it spills; without it those of a merge.",
)
COMPACTION_FRACTION: Final = Option(
    "hoodie.memory.compaction.fraction",
    fraction,
    0.6,
    "Share of a task's free memory that Hudi derives these bytes from. Here the bytes themselves count.",
    accepted=True,
)
DFS_BUFFER_MAX_SIZE: Final = Option(
    "hoodie.memory.dfs.buffer.max.size",
    positive,
    16 * MIB,
    "Buffer of the log reader.",
    accepted=True,
)
WRITE_FAILURE_FRACTION: Final = Option(
    "hoodie.memory.writestatus.failure.fraction",
    fraction,
    0.1,
    "Share of failed rows whose errors are kept. Here a row that cannot be written fails the write.",
    accepted=True,
)
DISK_MAP_TYPE: Final = Option(
    "hoodie.common.spillable.diskmap.type",
    word,
    "BITCASK",
    "Kind of map that spilled rows are kept in. Penstock spills columns to a file.",
    allowed=("BITCASK", "ROCKS_DB"),
    accepted=True,
)
DISK_MAP_COMPRESSION: Final = Option(
    "hoodie.common.diskmap.compression.enabled",
    boolean,
    True,
    "Compress that map.",
    accepted=True,
)

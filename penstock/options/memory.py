"""Options of memory: how many bytes a merge holds in memory, and where it spills."""

from __future__ import annotations

from typing import Final

from penstock.options.option import GIB, MIB, Option, boolean, fraction, positive, text, word

MERGE_MAX_BYTES: Final = Option(
    "hoodie.memory.merge.max.size",
    positive,
    GIB,
    "Bytes of incoming rows, or of merged log rows, that a merge holds in memory before it spills to disk.",
)
MERGE_FRACTION: Final = Option(
    "hoodie.memory.merge.fraction",
    fraction,
    0.6,
    "Fraction of a task's free memory from which Hudi computes the bytes of a merge. Penstock uses "
    "`hoodie.memory.merge.max.size`.",
    accepted=True,
)
SPILLABLE_MAP_PATH: Final[Option[str | None]] = Option(
    "hoodie.memory.spillable.map.path",
    text,
    None,
    "Folder for spilled rows. If not set, the local folder of the executor, or the temporary folder.",
)
COMPACTION_MAX_BYTES: Final[Option[int | None]] = Option(
    "hoodie.memory.compaction.max.size",
    positive,
    None,
    "Bytes of log rows that a compaction holds in memory before it spills to disk. If not set, `hoodie.memory.merge.max.size`.",
)
COMPACTION_FRACTION: Final = Option(
    "hoodie.memory.compaction.fraction",
    fraction,
    0.6,
    "Fraction of a task's free memory from which Hudi computes the bytes of a compaction. Penstock uses "
    "`hoodie.memory.compaction.max.size`.",
    accepted=True,
)
DFS_BUFFER_MAX_SIZE: Final = Option(
    "hoodie.memory.dfs.buffer.max.size",
    positive,
    16 * MIB,
    "Bytes of the log reader's buffer.",
    accepted=True,
)
WRITE_FAILURE_FRACTION: Final = Option(
    "hoodie.memory.writestatus.failure.fraction",
    fraction,
    0.1,
    "Fraction of failed rows whose errors Hudi keeps. In Penstock a row that cannot be written fails the write.",
    accepted=True,
)
DISK_MAP_TYPE: Final = Option(
    "hoodie.common.spillable.diskmap.type",
    word,
    "BITCASK",
    "Kind of map in which Hudi keeps spilled rows. Penstock spills columns to a file.",
    allowed=("BITCASK", "ROCKS_DB"),
    accepted=True,
)
DISK_MAP_COMPRESSION: Final = Option(
    "hoodie.common.diskmap.compression.enabled",
    boolean,
    True,
    "Compress the map of spilled rows.",
    accepted=True,
)

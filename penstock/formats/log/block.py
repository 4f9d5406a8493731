"""What a block of a log file is: its type, what it says about itself, and the numbers of its frame."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.errors import CorruptFile
from penstock.formats.log.positions import Positions, decode_positions

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
ROLLBACK = "0"  # the only command

FRONT = struct.Struct(">6sq")  # magic, size
KIND = struct.Struct(">ii")  # version, type; of a map's entry: key, size
INT = struct.Struct(">i")
LONG = struct.Struct(">q")


class BlockType(int, Enum):
    """What a block holds, by the number it has on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(int, Enum):
    """What a block says about itself, by the number it has on disk."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


_DATA = (BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA, BlockType.CDC_DATA)


@dataclass(frozen=True)
class LogBlock:
    """One block of a log file, without its content. Keys that are not known yet keep their number."""

    type: BlockType
    offset: int  # of its magic
    size: int  # of all of it, magic and trailing size included
    header: Mapping[int, str] = field(default_factory=dict)
    footer: Mapping[int, str] = field(default_factory=dict)
    content_offset: int = 0
    content_size: int = 0
    version: int = FORMAT_VERSION
    file_name: str = ""

    @property
    def is_data(self) -> bool:
        return self.type in _DATA

    @property
    def instant(self) -> str:
        """The instant of the commit that wrote it; of a rollback, the rollback's own."""
        return self._header(HeaderKey.INSTANT_TIME)

    @property
    def target_instant(self) -> str:
        """Of a rollback: the instant whose blocks before this one do not count."""
        return self._header(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str:
        """The Avro schema of its records, meta columns included."""
        return self._header(HeaderKey.SCHEMA)

    @property
    def compacted_instants(self) -> tuple[str, ...]:
        """Of a block that log compaction wrote: the instants whose blocks it stands for."""
        return tuple(filter(None, self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES, "").split(",")))

    @property
    def positions(self) -> Positions | None:
        """Where in the base file the rows of its records stand, ascending; None if it does not say. Raises CorruptFile."""
        text = self.header.get(HeaderKey.RECORD_POSITIONS)
        try:
            return None if text is None else decode_positions(text)
        except CorruptFile as cause:
            raise CorruptFile(f"{self.place}: {cause}") from cause

    @property
    def is_rollback(self) -> bool:
        return self.type is BlockType.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK

    @property
    def place(self) -> str:
        """Where it stands, for a message."""
        return f"log file {self.file_name or '(unnamed)'}, block at byte {self.offset}"

    def _header(self, key: HeaderKey) -> str:
        if key not in self.header:
            raise CorruptFile(f"{self.place}: a {self.type.name} block without {key.name}")
        return self.header[key]

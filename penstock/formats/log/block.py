"""`LogBlock`, a block of a log file without its content; and the numbers on disk of block types and header entries."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.errors import CorruptFile
from penstock.formats.log.positions import Positions, decode_positions

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
#: The command of a rollback block. Hudi writes no other command.
ROLLBACK = "0"

FRONT = struct.Struct(">6sq")  # magic, size
INT_PAIR = struct.Struct(">ii")  # of a block: version, type; of an entry in a map: key, size
INT = struct.Struct(">i")
LONG = struct.Struct(">q")


class BlockType(int, Enum):
    """The type of a log block. The value is its number on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2  # never written: readers report a damaged block with it
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(int, Enum):
    """The key of an entry in a log block's header or footer. The value is its number on disk."""

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
    """The description of a block in a log file: its place, header and footer, without its content.

    Attributes:
        offset: the offset of the block's magic in the file.
        size: the size of the whole block, with the magic and the trailing size.
        header: the values of the header by number of the key (`HeaderKey`). Keys that `HeaderKey` lacks are kept.
        footer: the values of the footer, in the same form.
        content_offset: the offset of the content in the file.
        problem: the error text of a block that is malformed (its two sizes agree, but its parts cannot be read) and that the scan
            therefore reports as CORRUPT. Empty for a CORRUPT block that is torn, and for every other block.
    """

    type: BlockType
    offset: int
    size: int
    header: Mapping[int, str] = field(default_factory=dict)
    footer: Mapping[int, str] = field(default_factory=dict)
    content_offset: int = 0
    content_size: int = 0
    version: int = FORMAT_VERSION
    file_name: str = ""
    problem: str = ""

    @property
    def is_data(self) -> bool:
        """Whether the block holds rows: rows of the table, or in a CDC block the changes of rows."""
        return self.type in _DATA

    @property
    def instant(self) -> str:
        """The time of the instant that wrote the block; for a rollback block, the time of the rollback."""
        return self._header(HeaderKey.INSTANT_TIME)

    @property
    def target_instant(self) -> str:
        """For a rollback block, the time of the instant whose earlier blocks it cancels."""
        return self._header(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str:
        """The Avro schema of the block's records, as JSON, with meta columns. Raises CorruptFile if the header has none."""
        return self._header(HeaderKey.SCHEMA)

    @property
    def compacted_instants(self) -> tuple[str, ...]:
        """The times of the instants whose blocks this block replaces, if a log compaction wrote it; otherwise empty."""
        return tuple(filter(None, self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES, "").split(",")))

    @property
    def positions(self) -> Positions | None:
        """The positions in the base file of the rows that the block changes or deletes, ascending; None if the header has none.

        Raises:
            CorruptFile: the positions in the header cannot be decoded.
        """
        text = self.header.get(HeaderKey.RECORD_POSITIONS)
        try:
            return None if text is None else decode_positions(text)
        except CorruptFile as cause:
            raise CorruptFile(f"{self.place}: {cause}") from cause

    @property
    def is_rollback(self) -> bool:
        """Whether this is a rollback block, which cancels the earlier blocks of `target_instant`."""
        return self.type is BlockType.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK

    @property
    def place(self) -> str:
        """The file name and offset of the block, for error messages: `log file .f_1.log.1_0-1-0, block at byte 512`."""
        return f"log file {self.file_name or '(unnamed)'}, block at byte {self.offset}"

    def _header(self, key: HeaderKey) -> str:
        """Return the value of a header entry. Raises CorruptFile if the header does not have it."""
        if key not in self.header:
            raise CorruptFile(f"{self.place}: a {self.type.name} block without {key.name}")
        return self.header[key]

"""The archived timeline: old instants, in log files below `.hoodie/archived`.

Every run of the archival writes one file `.commits_.archive.<n>_1-0-1`: blocks of Avro records, each record one state of one
instant with the content that its file had. Files are written whole and never changed; a greater number is a newer file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.block import BLOCK_VERSION, find_records
from penstock.formats.avro.container import decode_record, encode_record
from penstock.formats.avro.timeline_schemas import SCHEMAS
from penstock.formats.log import BlockType, HeaderKey, encode_block, open_log, read_content, scan_blocks
from penstock.schema import avro_text
from penstock.storage import FileInfo, Storage, join

ENTRY = "HoodieArchivedMetaEntry"
MERGE_PLAN = "mergeArchivePlan"
_TRIES = 3
_NAME = re.compile(r"\.commits_\.archive\.([0-9]+)(?:_[0-9]+-[0-9]+-[0-9]+)?")
_HEAD, _LENGTH = struct.Struct(">ii"), struct.Struct(">i")

#: One state of one instant, as it is on disk.
Entry = Mapping[str, Any]


def archive_path(base_path: str, folder: str = "archived") -> str:
    """The folder of the archived timeline."""
    return join(base_path, ".hoodie", folder)


def list_archive_files(storage: Storage, base_path: str, folder: str = "archived") -> list[FileInfo]:
    """The archive's files, oldest first."""
    found = [(int(match[1]), f) for f in storage.list(archive_path(base_path, folder)) if (match := _NAME.fullmatch(f.name))]
    return [file for _, file in sorted(found, key=lambda one: one[0])]


def is_archived(storage: Storage, base_path: str, folder: str = "archived") -> bool:
    """Whether anything was ever archived."""
    return bool(list_archive_files(storage, base_path, folder))


def next_archive_name(files: Sequence[FileInfo]) -> str:
    """The name of the file that comes after these."""
    numbers = [int(match[1]) for f in files if (match := _NAME.fullmatch(f.name))]
    return f".commits_.archive.{max(numbers, default=0) + 1}_1-0-1"


def write_entries(entries: Sequence[Entry], batch: int) -> bytes:
    """The content of an archive file; so many entries in a block."""
    return b"".join(_block(entries[at : at + batch]) for at in range(0, len(entries), batch))


def _block(entries: Sequence[Entry]) -> bytes:
    records = [encode_record(ENTRY, entry) for entry in entries]
    framed = b"".join(_LENGTH.pack(len(record)) + record for record in records)
    content = _HEAD.pack(BLOCK_VERSION, len(records)) + framed
    return encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: avro_text(SCHEMAS[ENTRY])}, content)


def read_entries(content: bytes, file_name: str) -> Iterator[dict[str, Any]]:
    """The entries of an archive file, in the order they were written in.

    Raises:
        CorruptFile: a block is torn, or is not one of an archive.
    """
    log = open_log(content)
    for block in scan_blocks(log, file_name=file_name):
        if block.type is not BlockType.AVRO_DATA:
            raise CorruptFile(f"{block.place}: a block of type {block.type.name} in the archived timeline")
        data, schema = memoryview(read_content(log, block)), block.header[HeaderKey.SCHEMA]
        starts, ends = find_records(data)
        for start, end in zip(starts, ends, strict=True):
            yield decode_record(bytes(data[int(start) : int(end)]), schema)


def load_archive(
    storage: Storage, base_path: str, folder: str = "archived", keep: Callable[[Entry], bool] = lambda _: True
) -> list[dict[str, Any]]:
    """What was archived, oldest first; what two files hold, as while they are merged, counts once.

    Args:
        keep: which entries are wanted; others are not held in memory.

    Raises:
        CorruptFile: a file cannot be read.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # files were merged since they were listed: what they held is in a new one
            return _load_archive(storage, base_path, folder, keep)
    return _load_archive(storage, base_path, folder, keep)


def _load_archive(storage: Storage, base_path: str, folder: str, keep: Callable[[Entry], bool]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for file in list_archive_files(storage, base_path, folder):
        for entry in read_entries(storage.read(file.path), file.path):
            if keep(entry):
                found.setdefault(entry_key(entry), entry)
    return sorted(found.values(), key=lambda entry: (entry["commitTime"], _STATES.get(entry["actionState"], 0)))


_STATES = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}


def entry_key(entry: Entry) -> tuple[str, str, str]:
    """What tells entries apart: time, action and state."""
    return entry["commitTime"] or "", entry["actionType"] or "", entry["actionState"] or ""


def entry_keys(entries: Iterable[Entry]) -> set[tuple[str, str, str]]:
    """The keys of entries."""
    return set(map(entry_key, entries))

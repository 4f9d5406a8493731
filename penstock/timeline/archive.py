"""The archived timeline: old instants, in log files below `.hoodie/archived`.

Every run of the archival writes one file `.commits_.archive.<n>_1-0-1` of Avro blocks. A record in it, called entry, is one state
(requested, inflight or completed) of one instant, with the content of the instant's file. Archive files are written whole and
never changed. A file with a greater number `<n>` is newer.
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
#: Attempts to read the archive while another process merges its files.
_ATTEMPTS = 3
_NAME = re.compile(r"\.commits_\.archive\.([0-9]+)(?:_[0-9]+-[0-9]+-[0-9]+)?")
#: The head of a block's content: its version, and the number of its records.
_HEAD = struct.Struct(">ii")
#: The length of a record in bytes.
_LENGTH = struct.Struct(">i")

#: One record of the archive: one state of one instant, with Hudi's field names.
Entry = Mapping[str, Any]


def archive_path(base_path: str, folder: str = "archived") -> str:
    """Return the path of the folder that holds the archived timeline.

    Args:
        folder: the name of that folder below `.hoodie`.
    """
    return join(base_path, ".hoodie", folder)


def list_archive_files(storage: Storage, base_path: str, folder: str = "archived") -> list[FileInfo]:
    """Return the files of the archived timeline, oldest first.

    Args:
        folder: the name of the archive's folder below `.hoodie`.
    """
    numbered_files: list[tuple[int, FileInfo]] = []
    for file in storage.list(archive_path(base_path, folder)):
        match = _NAME.fullmatch(file.name)
        if match:
            numbered_files.append((int(match[1]), file))
    numbered_files.sort(key=lambda numbered: numbered[0])
    return [file for _, file in numbered_files]


def is_archived(storage: Storage, base_path: str, folder: str = "archived") -> bool:
    """Whether the table has an archived timeline: at least one archive file.

    Args:
        folder: the name of the archive's folder below `.hoodie`.
    """
    return bool(list_archive_files(storage, base_path, folder))


def next_archive_name(files: Sequence[FileInfo]) -> str:
    """Return the name for the next archive file. Its number is one greater than the greatest number in the names of `files`."""
    numbers = []
    for file in files:
        match = _NAME.fullmatch(file.name)
        if match:
            numbers.append(int(match[1]))
    return f".commits_.archive.{max(numbers, default=0) + 1}_1-0-1"


def write_entries(entries: Sequence[Entry], batch: int) -> bytes:
    """Encode archived entries as the content of an archive file. An entry is one state of one instant.

    Args:
        batch: the greatest number of entries in a block.
    """
    return b"".join(_encode_entries(entries[start : start + batch]) for start in range(0, len(entries), batch))


def _encode_entries(entries: Sequence[Entry]) -> bytes:
    """Encode archived entries, each one state of one instant, as one Avro log block."""
    records = [encode_record(ENTRY, entry) for entry in entries]
    framed = b"".join(_LENGTH.pack(len(record)) + record for record in records)
    content = _HEAD.pack(BLOCK_VERSION, len(records)) + framed
    return encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: avro_text(SCHEMAS[ENTRY])}, content)


def read_entries(content: bytes, file_name: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of an archive file, in the order in which they were written. An entry is one state of one instant.

    Args:
        content: the content of the archive file.
        file_name: the name of the file, for errors.

    Raises:
        CorruptFile: a block is torn, or is not an Avro data block.
    """
    log = open_log(content)
    for block in scan_blocks(log, file_name=file_name):
        if block.type is not BlockType.AVRO_DATA:
            raise CorruptFile(f"{block.place}: a block of type {block.type.name} in the archived timeline")
        data = memoryview(read_content(log, block))
        schema = block.header[HeaderKey.SCHEMA]
        starts, ends = find_records(data)
        for start, end in zip(starts, ends, strict=True):
            yield decode_record(bytes(data[int(start) : int(end)]), schema)


def load_archive(
    storage: Storage, base_path: str, folder: str = "archived", keep: Callable[[Entry], bool] = lambda _: True
) -> list[dict[str, Any]]:
    """Read the entries of all archive files, oldest first. An entry is one state of one instant.

    While another process merges archive files, two files may hold the same entry. The entry is returned once.

    Args:
        folder: the name of the archive's folder below `.hoodie`.
        keep: is called with each entry. Entries for which it returns false are left out, and not held in memory.

    Raises:
        CorruptFile: a file cannot be read.
    """
    for _ in range(_ATTEMPTS):
        # FileNotFoundError: the file was merged into another one after it was listed. The next listing has the merged file.
        with suppress(FileNotFoundError):
            return _load_archive(storage, base_path, folder, keep)
    return _load_archive(storage, base_path, folder, keep)


def _load_archive(storage: Storage, base_path: str, folder: str, keep: Callable[[Entry], bool]) -> list[dict[str, Any]]:
    """Read the entries of all archive files, oldest first. An entry is one state of one instant.

    Args:
        folder: the name of the archive's folder below `.hoodie`.
        keep: is called with each entry. Entries for which it returns false are left out.

    Raises:
        FileNotFoundError: a file was merged into another one after it was listed. The caller tries again.
    """
    entry_by_key: dict[tuple[str, str, str], dict[str, Any]] = {}
    for file in list_archive_files(storage, base_path, folder):
        for entry in read_entries(storage.read(file.path), file.path):
            if keep(entry):
                entry_by_key.setdefault(entry_key(entry), entry)
    return sorted(entry_by_key.values(), key=lambda entry: (entry["commitTime"], _STATES.get(entry["actionState"], 0)))


_STATES = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}


def entry_key(entry: Entry) -> tuple[str, str, str]:
    """Return the key that identifies an archived entry: (time, action, state), such as `("20240101…", "commit", "COMPLETED")`."""
    return entry["commitTime"] or "", entry["actionType"] or "", entry["actionState"] or ""


def entry_keys(entries: Iterable[Entry]) -> set[tuple[str, str, str]]:
    """Return a set with the key (time, action, state) of each of these archived entries."""
    return set(map(entry_key, entries))

"""How old a file is, by the clock of the storage that has dated it.

The clocks of machines do not agree, and may be set back. The clock of this process decides only if by it the file is recent. In
any other case a file is written and its time compared. So no file looks old because the clock of this process is wrong.
"""

from __future__ import annotations

from contextlib import suppress

from penstock import clock
from penstock.errors import StorageError
from penstock.storage.base import FileInfo, Storage, join

#: A file that is this much newer than the clock of this process is dated by another clock.
_AHEAD_MS = 5_000


def is_older(storage: Storage, file: FileInfo, limit_ms: int, folder: str) -> bool:
    """Whether a file was modified as long ago as a limit, or longer.

    Args:
        limit_ms: the limit, in milliseconds.
        folder: where a file may be written, to ask the storage for the time. It is deleted at once.
    """
    age_ms = clock.now_ms() - file.modified_ms
    if -_AHEAD_MS <= age_ms < limit_ms:
        return False
    # Equal counts as older: file systems date files by a clock that advances every few milliseconds.
    return _ask_time(storage, folder) - file.modified_ms >= limit_ms


def _ask_time(storage: Storage, folder: str) -> int:
    """Return the time by the clock of the storage, in milliseconds since the epoch.

    To find it, write a file to the folder and delete it again. If that fails, return the time by the clock of this process.
    """
    path = join(folder, f"clock-{clock.new_uuid()}")
    info = None
    with suppress(StorageError):
        storage.replace(path, b"")
        info = storage.stat(path)
        storage.delete(path)
    return info.modified_ms if info is not None else clock.now_ms()

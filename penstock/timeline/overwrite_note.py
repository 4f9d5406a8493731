"""The note of save mode `overwrite` on a storage that cannot rename: the file that decides that a new table replaces the old one.

A note is `.hoodie/.overwrite/<name of the new table's folder>.json`. Exactly one process creates it. If the writer of the new
table does, with a content, the overwrite is decided. If another process does, without a content, the overwrite is given up: the
writer was taken for dead, and cannot decide any more, however late it wakes up. An object store lists the folder only while there
is a file in it, so the listing of the timeline shows whether there may be a note.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from penstock.errors import AlreadyExists
from penstock.storage import FileInfo, Storage, join
from penstock.timeline.timeline import Timeline

#: The name of the heartbeat of the new table's writer. With `-<id>` appended: the name of the new table's folder. On a storage
#: that can rename, also the name of the file that names the next table.
OVERWRITE = "overwrite"
#: The folder in `.hoodie` with the notes.
OVERWRITES = ".overwrite"
_SUFFIX = ".json"


@dataclass(frozen=True)
class OverwriteNote:
    """The note of an overwrite: a file which decides that a new table replaces the old one, and lists what is left to do.

    Paths are relative to the base path.
    """

    #: The name of the folder in `.hoodie/.temp` with the new table.
    new_table: str
    #: The name of the heartbeat of the process that replaces the table.
    heartbeat: str
    #: The files of the new table.
    new: tuple[str, ...]
    #: The files of the old table that the new one does not have.
    old: tuple[str, ...]

    def encode(self) -> bytes:
        """Return the content of the note's file."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, content: bytes) -> OverwriteNote:
        """Return the note that a file holds."""
        values = json.loads(content)
        return cls(values["new_table"], values["heartbeat"], tuple(values["new"]), tuple(values["old"]))


def note_path(folder: str, new_table: str) -> str:
    """Return the path of the note which decides that a new table replaces the old one.

    Args:
        folder: the path of the table's `.hoodie`.
        new_table: the name of the new table's folder.
    """
    return join(folder, OVERWRITES, f"{new_table}{_SUFFIX}")


def find_note(storage: Storage, folder: str) -> str | None:
    """Return the path of the note of an unfinished overwrite; None if there is none.

    The note says that a new table must replace the old one. The empty note of an overwrite that was given up does not count.

    Args:
        folder: the path of the table's `.hoodie`.
    """
    return next((file.path for file in list_notes(storage, folder) if not is_given_up(file)), None)


def is_overwritten(storage: Storage, folder: str, timeline: Timeline) -> bool:
    """Whether a new table must replace this table, in an overwrite that is not finished.

    A note, a file in a folder of `.hoodie`, says so. If the timeline shows that there is no such folder, this needs no request.

    Args:
        folder: the path of the table's `.hoodie`.
        timeline: the table's timeline, just loaded.
    """
    has_notes = timeline.folders is not None and OVERWRITES in timeline.folders
    return has_notes and find_note(storage, folder) is not None


def list_notes(storage: Storage, folder: str) -> list[FileInfo]:
    """Return the notes of all unfinished overwrites of a table, also of those that were given up so that the old table stays.

    Args:
        folder: the path of the table's `.hoodie`.
    """
    return storage.list(join(folder, OVERWRITES))


def is_given_up(note: FileInfo) -> bool:
    """Whether the note of an overwrite is empty, which says that the overwrite was given up and the old table stays."""
    return note.size_bytes == 0


def give_up(storage: Storage, folder: str, new_table: str) -> bool:
    """Prevent an overwrite, so that the old table stays. Return False if it is too late, because the new table must replace it.

    If the result is True, the new table may be deleted: no other process will look for it.

    Args:
        folder: the path of the table's `.hoodie`.
        new_table: the name of the new table's folder.
    """
    path = note_path(folder, new_table)
    try:
        storage.write_new(path, b"")
    except AlreadyExists:
        found = storage.stat(path)
        return found is None or is_given_up(found)
    return True

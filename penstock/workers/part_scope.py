"""The state that the task descriptions of one part share. A part is the task descriptions that one Spark task runs in turn.

One Spark task may run thousands of descriptions that each write a small file. A sync per file would take longer than everything
else. So the files of a part are synced together, after its last description and before its results are returned. And
descriptions of a part may share values, such as open files, which are dropped at its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import StorageError
from penstock.storage import Storage

_local = threading.local()


@dataclass(frozen=True)
class _UnsyncedFiles:
    """Files that one task description has written and that are not synced yet.

    After the sync `check` is called, which decides whether the files may stay, and `undo` if they may not.
    """

    storage: Storage
    paths: tuple[str, ...]
    #: The name of the check. Checks of the same name are the same, and one of them is called for all files of the part.
    check_name: str
    #: Called after the files are synced.
    check: Callable[[], None]
    #: Called if the check raises.
    undo: Callable[[], None]


@dataclass(frozen=True)
class Part:
    """The state shared by the task descriptions that one Spark task, or the driver, runs together: unsynced files, and values."""

    files: list[_UnsyncedFiles] = field(default_factory=list)
    #: Values by name; None if descriptions of the part run on several threads, which share nothing.
    shared: dict[str, dict[str, Any]] | None = None

    def sync(self) -> None:
        """Sync the files of all descriptions of the part, with one call for each storage. Then call each check once.

        If a check raises an error, delete the files of all descriptions (`undo`), and raise the error again.
        """
        paths: dict[Storage, list[str]] = {}
        for written in self.files:
            paths.setdefault(written.storage, []).extend(written.paths)
        for storage, its_paths in paths.items():
            storage.sync(its_paths)
        checks = {written.check_name: written.check for written in self.files}
        try:
            for check in checks.values():
                check()
        except BaseException:
            for written in self.files:
                with suppress(StorageError):  # the other files have to go too, and the error of the check is the one to see
                    written.undo()
            raise


@contextmanager
def enter_part(part: Part | None) -> Iterator[None]:
    """Within the `with` block, collect the files that task descriptions write on this thread in `part`, to sync them together.

    Args:
        part: task descriptions whose files are synced together. None: the files of each description are synced by themselves.
    """
    _local.part = part
    try:
        yield
    finally:
        _local.part = None


def sync_files(
    storage: Storage, paths: Sequence[str], *, check_name: str, check: Callable[[], None], undo: Callable[[], None]
) -> None:
    """Sync files that the running task description wrote, then call `check`, which decides whether the files may stay.

    A part is the task descriptions that one Spark task runs in turn. The sync and the check are delayed until the last of them
    has run. Outside a part they run at once.

    Args:
        check_name: the name of the check. If several descriptions of a part pass checks of the same name, only one is called.
        check: raises an error if the files must not stay.
        undo: deletes the files. Called if a check of the part raises an error.
    """
    part: Part | None = getattr(_local, "part", None)
    written = _UnsyncedFiles(storage, tuple(paths), check_name, check, undo)
    if part is None:
        Part([written]).sync()
    else:
        part.files.append(written)


def shared_in_part(name: str) -> dict[str, Any]:
    """Return the dict of this name, which all task descriptions share that this Spark task runs in turn (the running part).

    Return a new empty dict outside a part, or if its descriptions run on several threads, which share nothing.
    """
    part: Part | None = getattr(_local, "part", None)
    if part is None or part.shared is None:
        return {}
    return part.shared.setdefault(name, {})

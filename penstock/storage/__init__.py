"""Port: where a table's files live, chosen by the scheme of its path."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from penstock.errors import OptionError, Unsupported
from penstock.storage.base import FileInfo, Storage, join, walk
from penstock.storage.local import LocalStorage, temporary_folder
from penstock.storage.memory import MemoryStorage

__all__ = ["SCHEMES", "FileInfo", "LocalStorage", "MemoryStorage", "Storage", "join", "locate", "temporary_folder", "walk"]

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):(.*)$", re.DOTALL)


def locate(path: str) -> tuple[Storage, str]:
    """The storage that serves a path, and the path as that storage spells it."""
    if not path or not path.strip():
        raise OptionError("'path' must be set: give the table's folder to save() or load()")
    if "\0" in path:
        raise OptionError(f"the path {path!r} holds a NUL character; choose another folder")
    match = _SCHEME.match(path)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", path)
    if scheme not in SCHEMES:
        raise Unsupported(f"no storage serves {scheme}:// yet (path {path!r}); use a local or mounted folder")
    return SCHEMES[scheme](rest)


def _plain(rest: str) -> tuple[Storage, str]:
    return LocalStorage(), os.path.abspath(rest)


def _file(rest: str) -> tuple[Storage, str]:
    if rest.startswith("//") and not rest.startswith("///"):
        raise OptionError(f"the path {'file:' + rest!r} names a host; write file:///folder for a local folder")
    return _plain(re.sub("^/+", "/", rest))  # and literally from there on, as Spark takes it: a % is a %


def _memory(rest: str) -> tuple[Storage, str]:
    return MemoryStorage(), "/" + rest.strip("/")


#: Who serves a scheme: from what follows the colon to the storage, and the path as it spells it.
SCHEMES: dict[str, Callable[[str], tuple[Storage, str]]] = {"": _plain, "file": _file, "memory": _memory}

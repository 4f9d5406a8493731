"""`STORAGES`, the map from path scheme to storage; and `open_storage`, which chooses the storage of a path.

To add a storage, write a module next to this one, with a class that implements `Storage` and a function that opens a path. Add
one line per scheme to `STORAGES`, and add the storage to the fixture of `tests/contract/test_storage.py`. Every Spark worker
imports this module. So a storage that needs an optional package must import that package inside its functions.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import OptionError, Unsupported
from penstock.storage.base import Storage, split_scheme
from penstock.storage.local import open_local
from penstock.storage.memory import open_memory

#: The function that opens the paths of each scheme. A path without a scheme has the scheme "".
#: The function is called with the path as the user wrote it, and returns the storage and the path without its scheme.
STORAGES: dict[str, Callable[[str], tuple[Storage, str]]] = {
    "": open_local,
    "file": open_local,
    "memory": open_memory,
}


def open_storage(path: str) -> tuple[Storage, str]:
    """Return the storage for the scheme of a path, and the path without its scheme, for the methods of that storage.

    Reads nothing: the path need not exist.

    Raises:
        OptionError: the path is empty or malformed.
        Unsupported: no storage serves the scheme.
    """
    if not path or not path.strip():
        raise OptionError("'path' must be set: give the table's folder to save() or load()")
    if "\0" in path:
        raise OptionError(f"the path {path!r} holds a NUL character; choose another folder")
    scheme, _ = split_scheme(path)
    if scheme not in STORAGES:
        raise Unsupported(f"no storage serves {scheme}:// yet (path {path!r}); use a local or mounted folder")
    return STORAGES[scheme](path)

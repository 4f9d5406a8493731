"""`STORAGES` and `REMOTE_STORAGES`, the maps from scheme to storage; and `open_storage`, which chooses the storage of a path.

To add a storage, write a module next to this one, with a class that implements `Storage` and a function that opens a path. Add
one line per scheme to `STORAGES`, and add the storage to the fixture of `tests/contract/test_storage.py`. Every Spark worker
imports this module. So a storage that needs an optional package must import that package inside its functions.
A storage that takes settings, such as an endpoint, is in `REMOTE_STORAGES` instead: its function also receives the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.errors import OptionError, Unsupported
from penstock.storage.base import Storage, split_scheme
from penstock.storage.local import open_local
from penstock.storage.memory import open_memory
from penstock.storage.remote import explain_remote, open_hdfs, open_object_store
from penstock.storage.settings import Sources

#: The function that opens the paths of each scheme. A path without a scheme has the scheme "".
#: The function is called with the path as the user wrote it, and returns the storage and the path without its scheme.
STORAGES: dict[str, Callable[[str], tuple[Storage, str]]] = {
    "": open_local,
    "file": open_local,
    "memory": open_memory,
}


#: The function that opens the paths of each remote scheme, with the places of its settings.
REMOTE_STORAGES: dict[str, Callable[[str, Sources], tuple[Storage, str]]] = {
    "s3": open_object_store,
    "s3a": open_object_store,
    "s3n": open_object_store,
    "gs": open_object_store,
    "abfs": open_object_store,
    "abfss": open_object_store,
    "wasb": open_object_store,
    "wasbs": open_object_store,
    "az": open_object_store,
    "hdfs": open_hdfs,
}


#: Returns the storage settings of the running session. `use_session_settings` replaces it.
_read_session_settings: Callable[[], Mapping[str, str]] = dict


def use_session_settings(read: Callable[[], Mapping[str, str]]) -> None:
    """Register a function that returns the settings of the session, such as `fs.s3a.endpoint`. `open_storage` calls it.

    Paths are opened in many places, and as in Spark the settings of the session apply to all of them. The function is called only
    for a path of a remote storage. No function is registered in a worker: a storage that is pickled to a worker holds its
    settings.

    Args:
        read: returns the settings of the session by their keys.
    """
    global _read_session_settings
    _read_session_settings = read


def open_storage(path: str, settings: Mapping[str, str] | None = None) -> tuple[Storage, str]:
    """Return the storage for the scheme of a path, and the path without its scheme, for the methods of that storage.

    Reads nothing from the storage: the path need not exist.

    Args:
        settings: Hadoop's settings, such as `fs.s3a.endpoint` (also with the prefix `spark.hadoop.`), and options
            `penstock.storage.*`. They take precedence over those of the session (`use_session_settings`). Other settings are
            looked up in the environment of this process.

    Raises:
        OptionError: the path is empty or malformed, or a setting has a wrong value.
        Unsupported: no storage serves the scheme, or the package that it needs is not installed.
    """
    scheme = _check_path(path)
    if scheme in STORAGES:
        return STORAGES[scheme](path)
    return REMOTE_STORAGES[scheme](path, Sources.of({**_read_session_settings(), **(settings or {})}))


def explain_storage(path: str, settings: Mapping[str, str] | None = None) -> str:
    """Return text on the storage of a path: for a remote one, the path, then a line per setting with its value and place.

    Secrets are masked. For other storages, which have no settings, the text is the storage's class and the path.

    Raises:
        OptionError: the path is empty or malformed, or a setting has a wrong value.
        Unsupported: no storage serves the scheme, or the package that it needs is not installed.
    """
    scheme = _check_path(path)
    if scheme in STORAGES:
        storage, full_path = open_storage(path)
        return f"{type(storage).__name__}: {full_path}"
    return explain_remote(*open_storage(path, settings))


def _check_path(path: str) -> str:
    """Return the scheme of a path. Raises OptionError if the path is malformed, Unsupported if no storage serves the scheme."""
    if not path or not path.strip():
        raise OptionError("'path' must be set: give the table's folder to save() or load()")
    if "\0" in path:
        raise OptionError(f"the path {path!r} holds a NUL character; choose another folder")
    scheme, _ = split_scheme(path)
    if scheme not in STORAGES and scheme not in REMOTE_STORAGES:
        known = ", ".join(sorted({*STORAGES, *REMOTE_STORAGES} - {"", "memory"}))
        raise Unsupported(f"no storage serves {scheme}:// (path {path!r}); the schemes are {known}")
    return scheme

"""Storage: the port through which Penstock reads and writes a table's files.

`open_storage(path)` returns the storage for the scheme of a path. `base.py` defines the protocol that every storage implements.
`schemes.py` maps schemes to storages. Each storage has a module of its own: `local.py`, `memory.py`, `object_store.py` and
`hdfs.py`. `settings.py` finds the settings of the last two.
"""

from penstock.storage.ages import is_older
from penstock.storage.arrow_files import ArrowFile, open_arrow_file, write_batch
from penstock.storage.base import FileInfo, Storage, is_file, join, walk
from penstock.storage.conditional_put import check_conditional_put
from penstock.storage.left_over_uploads import abort_uploads
from penstock.storage.local import LocalStorage, temporary_folder
from penstock.storage.memory import MemoryStorage
from penstock.storage.object_store import (
    ObjectStorage,
    copy_files,
    delete_trees,
    has_whole_files,
    list_tree_without,
    write_new_within,
)
from penstock.storage.schemes import REMOTE_STORAGES, STORAGES, explain_storage, open_storage, use_session_settings

__all__ = [
    "REMOTE_STORAGES",
    "STORAGES",
    "ArrowFile",
    "FileInfo",
    "LocalStorage",
    "MemoryStorage",
    "ObjectStorage",
    "Storage",
    "abort_uploads",
    "check_conditional_put",
    "copy_files",
    "delete_trees",
    "explain_storage",
    "has_whole_files",
    "is_file",
    "is_older",
    "join",
    "list_tree_without",
    "open_arrow_file",
    "open_storage",
    "temporary_folder",
    "use_session_settings",
    "walk",
    "write_batch",
    "write_new_within",
]

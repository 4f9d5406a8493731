"""Storage: the port through which Penstock reads and writes a table's files.

`open_storage(path)` returns the storage for the scheme of a path. `base.py` defines the protocol that every storage implements.
`schemes.py` maps schemes to storages. Each storage has a module of its own: `local.py`, `memory.py`.
"""

from penstock.storage.base import FileInfo, Storage, is_file, join, walk
from penstock.storage.local import LocalStorage, temporary_folder
from penstock.storage.memory import MemoryStorage
from penstock.storage.schemes import STORAGES, open_storage

__all__ = [
    "STORAGES",
    "FileInfo",
    "LocalStorage",
    "MemoryStorage",
    "Storage",
    "is_file",
    "join",
    "open_storage",
    "temporary_folder",
    "walk",
]

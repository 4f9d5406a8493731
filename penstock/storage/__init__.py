"""Storage: the port through which Penstock reads and writes a table's files.

`open_storage(path)` returns the storage that serves the scheme of a path. `base.py` holds the protocol that every storage
implements, `schemes.py` the table of schemes, and one module per storage the implementations.
"""

from penstock.storage.base import FileInfo, Storage, join, walk
from penstock.storage.local import LocalStorage, temporary_folder
from penstock.storage.memory import MemoryStorage
from penstock.storage.schemes import STORAGES, open_storage

__all__ = [
    "STORAGES",
    "FileInfo",
    "LocalStorage",
    "MemoryStorage",
    "Storage",
    "join",
    "open_storage",
    "temporary_folder",
    "walk",
]

"""An object store in the memory of this process, with a fault at one of its requests.

Paths with the scheme `objects:` are served while `memory_store` is active. It is Penstock's own `ObjectStorage`, over a store of
obstore: it cannot rename, and deletes several files with several requests.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import obstore
import obstore.store

from penstock.errors import StorageError
from penstock.storage import STORAGES, FileInfo, ObjectStorage
from penstock.storage.base import split_scheme
from penstock.storage.object_store_client import ClientSettings
from penstock.timeline.store import forget_instants
from tests.kit.faults import Crash, Fault

T = TypeVar("T")

SCHEME = "objects"
#: Files that one request deletes: so few that a small table takes several.
PAGE = 3


@dataclass
class Requests:
    """The requests of a run, and which of them fails."""

    at: int | None = None
    fault: Fault = Fault.BEFORE
    calls: builtins.list[str] = field(default_factory=list)
    #: Called before each request, with the request.
    watch: Callable[[str], object] = str
    is_dead: bool = False
    #: Whether the requests that only read are counted, instead of those that change something.
    looks: bool = False

    def look(self, what: str, do: Callable[[], T]) -> T:
        """Send a request that only reads."""
        if not self.looks:
            if self.is_dead:
                raise Crash("a request after the crash")
            return do()
        number = len(self.calls)
        self.calls.append(what)
        if number == self.at:
            raise StorageError(5, "the store failed", what)
        return do()

    def send(self, what: str, do: Callable[[], object]) -> None:
        """Send a request, or fail as planned. A process that crashed does nothing more."""
        if self.is_dead:
            raise Crash("a request after the crash")
        if self.looks:
            do()
            return
        self.watch(what)
        number = len(self.calls)
        self.calls.append(what)
        if number != self.at:
            do()
        elif self.fault is Fault.BEFORE:
            self.is_dead = True
            raise Crash(what)
        elif self.fault is Fault.FAILS:
            raise StorageError(5, "the store failed", what)
        else:
            assert self.fault is Fault.FAILS_AFTER
            do()
            raise StorageError(5, "the store failed", what)


@dataclass(frozen=True, repr=False)
class CountedStorage(ObjectStorage):
    """An object storage whose requests that change something are counted, and may fail."""

    requests: Requests = field(default_factory=Requests, compare=False)

    def uri(self, path: str) -> str:
        return f"{SCHEME}:{path}"

    def read(self, path: str) -> bytes:
        return self.requests.look(f"read {path}", lambda: ObjectStorage.read(self, path))

    def list(self, path: str) -> builtins.list[FileInfo]:
        return self.requests.look(f"list {path}", lambda: ObjectStorage.list(self, path))

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        return self.requests.look(f"list_tree {path}", lambda: ObjectStorage.list_tree(self, path))

    def stat(self, path: str) -> FileInfo | None:
        return self.requests.look(f"stat {path}", lambda: ObjectStorage.stat(self, path))

    def write_new(self, path: str, data: bytes) -> None:
        self.requests.send(f"write_new {path}", lambda: ObjectStorage.write_new(self, path, data))

    def replace(self, path: str, data: bytes) -> None:
        self.requests.send(f"replace {path}", lambda: ObjectStorage.replace(self, path, data))

    def copy(self, path: str, to: str) -> None:
        self.requests.send(f"copy {path} {to}", lambda: ObjectStorage.copy(self, path, to))

    def delete_files(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), PAGE):
            some = paths[start : start + PAGE]
            self.requests.send(f"delete {' '.join(some)}", lambda some=some: ObjectStorage.delete_files(self, some))  # type: ignore[misc]


class MemoryStore:
    """The store, and the storages that reach it."""

    def __init__(self) -> None:
        self.client = obstore.store.MemoryStore()
        self.requests = Requests()

    def open(self, path: str = "") -> tuple[CountedStorage, str]:
        """Return a storage for the requests of the current run, and the path without its scheme."""
        settings = ClientSettings("gcs", "bucket", (("id", str(id(self))),))
        return CountedStorage(SCHEME, "bucket", settings, self.requests), "/" + split_scheme(path)[1].strip("/")

    def files(self) -> dict[str, bytes]:
        """Return the content of every file, by its key."""
        keys = [meta["path"] for page in obstore.list(self.client) for meta in page]
        return {key: bytes(obstore.get(self.client, key).bytes()) for key in keys}

    def put(self, files: dict[str, bytes]) -> None:
        """Make these files the only ones."""
        for key in self.files():
            obstore.delete(self.client, key)
        for key, content in files.items():
            obstore.put(self.client, key, content, use_multipart=False)
        forget_instants()

    def download(self, folder: Path) -> None:
        """Write every file to a local folder."""
        for key, content in self.files().items():
            file = folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def _put_new(storage: ObjectStorage, path: str, data: bytes, creator: str) -> None:
    """Send a conditional put: a store of obstore in memory keeps no user metadata."""
    client: Any = storage._store
    obstore.put(client, path.strip("/"), data, mode="create", use_multipart=False)


@contextmanager
def memory_store() -> Iterator[MemoryStore]:
    """Serve paths with the scheme `objects:` by a new store until the block ends. Files are copied one after the other."""
    store = MemoryStore()
    STORAGES[SCHEME] = store.open
    try:
        with (
            patch("penstock.storage.object_store_client._make_client", lambda settings, repeats: store.client),
            patch("penstock.storage.object_store._AT_ONCE", 1),
            patch.object(ObjectStorage, "_put_new", _put_new),
        ):
            yield store
    finally:
        del STORAGES[SCHEME]

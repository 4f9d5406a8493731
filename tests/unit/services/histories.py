"""Tables in memory with a history of commits, for tests of services: names and metadata alone, no rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.filegroup.names import PARTITION_METAFILE, base_file_name
from penstock.formats.avro.container import write_container
from penstock.options import read_options
from penstock.storage import FileInfo, MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.store import load_timeline

CALLS: dict[str, list[tuple[str, str]]] = {}


@dataclass(frozen=True)
class NotedStorage(MemoryStorage):
    """A storage that records what is listed, read and deleted."""

    def _note(self, what: str, path: str) -> None:
        CALLS.setdefault(self.name, []).append((what, path))

    def list(self, path: str) -> list[FileInfo]:
        self._note("list", path)
        return super().list(path)

    def read(self, path: str) -> bytes:
        self._note("read", path)
        return super().read(path)

    def delete(self, path: str) -> bool:
        self._note("delete", path)
        return super().delete(path)

    def remove_empty(self, path: str) -> bool:
        self._note("remove_empty", path)
        return super().remove_empty(path)


@dataclass
class History:
    """A table that grows commit by commit. Times are numbers of 17 digits."""

    kind: str = "COPY_ON_WRITE"
    storage: NotedStorage = field(default_factory=lambda: NotedStorage(uuid.uuid4().hex))
    versions: dict[tuple[str, str], str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def commit(
        self,
        number: int,
        groups: Iterable[str],
        *,
        action: str = "commit",
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> History:
        """Add a commit that writes a version of each group, named as `partition/file id`."""
        time, stats = at(number), []
        for group in groups:
            path, _, file_id = group.rpartition("/")
            name = base_file_name(file_id, "0-0-0", time)
            self.file(f"{path}/{name}" if path else name)
            before = self.versions.get((path, file_id), "null")
            below = f"{path}/{name}" if path else name
            stats.append(WriteStat(file_id, path, below, prev_commit=before, num_writes=1))
            self.versions[path, file_id] = time
        metadata = CommitMetadata(tuple(stats), operation="UPSERT", replaced=replaced, extra=extra or {})
        for suffix in (f"{action}.requested", "inflight" if action == "commit" else f"{action}.inflight"):
            self.instant(f"{time}.{suffix}", b"")
        self.instant(f"{time}.{action}", write_commit(metadata))
        return self

    def commits(self, numbers: Iterable[int], *groups: str) -> History:
        for number in numbers:
            self.commit(number, groups)
        return self

    def file(self, below: str, content: bytes = b"x") -> None:
        folder = below.rpartition("/")[0]
        metafile = "/".join(filter(None, ("/t", folder, PARTITION_METAFILE)))
        if folder not in self.folders:
            self.storage.write_new(metafile, b"partitionDepth=1\n")
            self.folders.add(folder)
        self.storage.write_new(f"/t/{below}", content)

    def instant(self, name: str, content: bytes) -> None:
        self.storage.write_new(f"/t/.hoodie/{name}", content)

    def savepoint(self, number: int, files: Mapping[str, list[str]]) -> None:
        record = {
            "savepointedBy": "me",
            "savepointedAt": 0,
            "comments": "",
            "partitionMetadata": {p: {"partitionPath": p, "savepointDataFile": names} for p, names in files.items()},
        }
        self.instant(f"{at(number)}.savepoint.inflight", b"")
        self.instant(f"{at(number)}.savepoint", write_container("HoodieSavepointMetadata", record))

    def table(self, **options: object) -> TableState:
        """Return the current table. Options are named by the last parts of their keys, with `_` for a dot."""
        config = TableConfig({"hoodie.table.name": "t", "hoodie.table.type": self.kind, "hoodie.table.partition.fields": "p"})
        given = read_options({f"hoodie.{name.replace('_', '.')}": value for name, value in options.items()})
        return TableState(self.storage, "/t", config, given, load_timeline(self.storage, "/t"))

    def data_files(self, below: str = "/t/") -> list[str]:
        names = (path for path in self.storage._files if path.startswith(below) and "/.hoodie" not in path)
        return sorted(path.removeprefix("/t/") for path in names)

    def instants(self) -> list[str]:
        return [f.name for f in self.storage.list("/t/.hoodie") if not f.is_dir]

    def calls(self, *kinds: str) -> list[str]:
        """Return the paths of calls of some kinds since the last call of this method, without the timeline."""
        noted = CALLS.pop(self.storage.name, [])
        return [path for what, path in noted if what in kinds and "/.hoodie" not in path]


def at(number: int) -> str:
    """Return the time of a number."""
    return f"2024010100{number // 60:02d}{number % 60:02d}000"


def base(file_id: str, number: int) -> str:
    """Return the name of a base file."""
    return base_file_name(file_id, "0-0-0", at(number))

"""Counts what a write or read does, for tests that guard the fast path without a clock.

`counted` serves paths with the scheme `count:` by the local file system and logs every call in a file, so that driver and
Spark's workers share one log. `Counts` sums it up together with the Spark jobs of the block: figures that are the same on every
machine, and change when an optimisation is lost.
"""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.storage import STORAGES, FileInfo, LocalStorage
from penstock.storage.base import list_by_folders, read_ranges_of_open, split_scheme
from penstock.workers import run_kernels as spread

SCHEME = "count"
_SETTLE_SECONDS_MAX = 10.0
#: Lines of the log that are no calls of the storage.
_NO_CALLS = ("bytes", "crossed", "staged")


@dataclass(frozen=True)
class Counts:
    """The work of one block."""

    #: Spark's jobs, and the tasks of their stages.
    jobs: int
    tasks: int
    #: Base files opened, and column chunks of them that were read.
    opened: int
    chunks: int
    #: Rows that Spark handed over to Python.
    crossed: int
    #: Rows that were staged, and their bytes as Arrow.
    staged_rows: int
    staged_bytes: int
    #: Base files written.
    written: int
    #: Folders outside the timeline that were listed.
    listed: int
    #: Log files opened, and written.
    logs_opened: int = 0
    logs_written: int = 0
    #: Bytes of the column chunks that were read, before compression: after it they differ with the digits of times.
    chunk_bytes: int = field(default=0, compare=False)
    #: Calls of the storage: files and folders read, written, listed, looked for, synced or deleted.
    calls: int = field(default=0, compare=False)
    #: Calls that sync files to disk.
    syncs: int = field(default=0, compare=False)
    #: Record batches of staged files.
    staged_batches: int = field(default=0, compare=False)


@dataclass
class Account:
    """The log of the calls of a block. `counts` is set when the block has ended."""

    file: str
    counts: Counts = field(init=False)

    def note(self, *words: Any) -> None:
        """Append one line. Safe between processes."""
        handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, ("\t".join(map(str, words)) + "\n").encode())
        finally:
            os.close(handle)

    @property
    def notes(self) -> list[list[str]]:
        """All lines, split into words."""
        file = Path(self.file)
        return [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []


@dataclass(frozen=True)
class CountingStorage:
    """The local file system, with every call logged."""

    file: str
    inner: LocalStorage = field(default_factory=LocalStorage)

    def _note(self, *words: Any) -> None:
        Account(self.file).note(*words)

    def read(self, path: str) -> bytes:
        self._note("read", path)
        return self.inner.read(path)

    def open(self, path: str) -> pa.NativeFile:
        source = self.inner.open(path)
        reader = _Reader(self, path, source)
        self._note("open", path, reader.number)
        return pa.PythonFile(reader, mode="r")

    def map(self, path: str) -> pa.NativeFile:
        self._note("map", path)
        return self.inner.map(path)

    def create(self, path: str) -> pa.NativeFile:
        self._note("create", path)
        return self.inner.create(path)

    def sync(self, paths: Sequence[str]) -> None:
        self._note("sync", len(paths))

    def write_new(self, path: str, data: bytes) -> None:
        self._note("write_new", path)
        self.inner.write_new(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._note("replace", path)
        self.inner.replace(path, data)

    def list(self, path: str) -> list[FileInfo]:
        self._note("list", path)
        return self.inner.list(path)

    def stat(self, path: str) -> FileInfo | None:
        self._note("stat", path)
        return self.inner.stat(path)

    def delete(self, path: str) -> bool:
        self._note("delete", path)
        return self.inner.delete(path)

    def delete_tree(self, path: str) -> None:
        for file in sorted(Path(path).rglob("*.arrow")):  # staged rows are deleted with the markers: count them before
            if file.parent.name == "staged" and file.name[0].isdigit():
                self._note("staged", file, *_measure_rows(file))
        self._note("delete_tree", path)
        self.inner.delete_tree(path)

    def remove_empty(self, path: str) -> bool:
        self._note("remove_empty", path)
        return self.inner.remove_empty(path)

    def move_tree(self, path: str, to: str) -> None:
        self._note("move_tree", path, to)
        self.inner.move_tree(path, to)

    def make_dirs(self, path: str) -> None:
        self._note("make_dirs", path)
        self.inner.make_dirs(path)

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        return list_by_folders(self, path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        return read_ranges_of_open(self.open(path), ranges)

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def uri(self, path: str) -> str:
        return path


class _Reader:
    """An open file. Logs the position and length of every read."""

    def __init__(self, storage: CountingStorage, path: str, source: pa.NativeFile) -> None:
        self._storage, self._path, self._source = storage, path, source
        self.number = f"{os.getpid()}-{id(self)}-{time.monotonic_ns()}"

    @property
    def closed(self) -> bool:
        return bool(self._source.closed)

    def read(self, size: int = -1) -> bytes:
        at = self._source.tell()
        data: bytes = self._source.read(size if size >= 0 else None)
        self._storage._note("bytes", self._path, self.number, at, len(data))
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._source.seek(offset, whence))

    def tell(self) -> int:
        return int(self._source.tell())

    def size(self) -> int:
        return int(self._source.size())

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._source.close()


def _measure_rows(file: Path) -> tuple[int, int, int]:
    with pa.OSFile(str(file)) as source:
        reader = pa.ipc.open_file(source)
        batches = reader.read_all()
        return batches.num_rows, batches.nbytes, reader.num_record_batches


@contextmanager
def counted(spark: Any, folder: Path) -> Iterator[Account]:
    """Count the work of the block on paths with the scheme `count:`, on a classic session."""
    folder.mkdir(parents=True, exist_ok=True)
    account = Account(str(folder / f"account-{time.monotonic_ns()}"))
    group = Path(account.file).name
    STORAGES[SCHEME] = lambda path: (CountingStorage(account.file), os.path.abspath(split_scheme(path)[1]))
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        with patch.object(spread, "_run_over_batches", partial(_run_and_log_rows, account.file)):
            yield account
        jobs, tasks = _count_jobs_and_tasks(spark.sparkContext.statusTracker(), group)
        account.counts = _sum_up(account.notes, jobs, tasks)
    finally:
        spark.sparkContext.setJobGroup("rest", "not counted")
        del STORAGES[SCHEME]


def _run_and_log_rows(file: str, kernel: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a kernel in a worker, and log the rows that Spark hands to it."""
    account = Account(file)

    def log_rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            account.note("crossed", batch.num_rows)
            yield batch

    yield from spread._run_over_batches(kernel, log_rows())


def _count_jobs_and_tasks(tracker: Any, group: str) -> tuple[int, int]:
    """Return the numbers of jobs and tasks of a job group, once Spark's own account of them is complete."""
    deadline = time.monotonic() + _SETTLE_SECONDS_MAX
    while True:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        known = [stage for stage in stages if stage is not None]
        settled = all(job and job.status == "SUCCEEDED" for job in jobs) and all(s.numActiveTasks == 0 for s in known)
        if settled or time.monotonic() > deadline:
            return len(jobs), sum(stage.numCompletedTasks for stage in known)
        time.sleep(0.05)


def _sum_up(notes: Sequence[Sequence[str]], jobs: int, tasks: int) -> Counts:
    staged = [words for words in notes if words[0] == "staged"]
    chunks = _read_chunks(notes)
    logs = [words[0] for words in notes if len(words) > 1 and ".log." in words[1]]
    return Counts(
        jobs=jobs,
        tasks=tasks,
        opened=sum(1 for words in notes if words[0] == "open" and words[1].endswith(".parquet")),
        chunks=len(chunks),
        crossed=sum(int(words[1]) for words in notes if words[0] == "crossed"),
        staged_rows=sum(int(words[2]) for words in staged),
        staged_bytes=sum(int(words[3]) for words in staged),
        written=sum(1 for words in notes if words[0] == "create" and words[1].endswith(".parquet")),
        listed=sum(1 for words in notes if words[0] == "list" and "/.hoodie" not in words[1]),
        logs_opened=sum(1 for name in logs if name in ("open", "map", "read")),
        logs_written=sum(1 for name in logs if name in ("create", "write_new")),
        chunk_bytes=sum(chunks.values()),
        calls=sum(1 for words in notes if words[0] not in _NO_CALLS),
        syncs=sum(1 for words in notes if words[0] == "sync"),
        staged_batches=sum(int(words[4]) for words in staged),
    )


def _read_chunks(notes: Sequence[Sequence[str]]) -> dict[tuple[str, str, int], int]:
    """Return the column chunks that were read, with their sizes. A chunk counts once for each time that its file was opened.

    A read that reaches the end of the file is a read of the footer, even if it covers chunks of a small file.
    """
    ends: dict[str, int] = {}
    places: dict[str, list[tuple[int, int, int]]] = {}
    found: dict[tuple[str, str, int], int] = {}
    for name, path, *more in notes:
        if name != "bytes" or not path.endswith(".parquet"):
            continue
        if path not in places:
            ends[path], places[path] = os.path.getsize(path), _list_chunks(path)
        reader, start, size = more[0], int(more[1]), int(more[2])
        if start + size < ends[path]:
            read = [one for one in places[path] if one[0] < start + size and start < one[0] + one[1]]
            found |= {(path, reader, at): plain for at, _, plain in read}
    return found


def _list_chunks(path: str) -> list[tuple[int, int, int]]:
    """Return the offset of each column chunk, its compressed and its uncompressed size."""
    metadata = pq.read_metadata(path)
    columns = [metadata.row_group(g).column(c) for g in range(metadata.num_row_groups) for c in range(metadata.num_columns)]
    begins = [c.dictionary_page_offset or c.data_page_offset for c in columns]
    return [(at, c.total_compressed_size, c.total_uncompressed_size) for at, c in zip(begins, columns, strict=True)]

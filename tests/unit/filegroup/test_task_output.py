"""What a task may write, and when it may not: the write was finished, or taken back, without it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from penstock.commit.markers import open_write, reconcile, seal
from penstock.errors import AlreadyExists, StorageError
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.storage import MemoryStorage

BASE = "/t"
TIME = "20240101000000000"
FILE = "p/f_0-0-0_20240101000000000.parquet"
METAFILE = f"{BASE}/p/.hoodie_partition_metadata"


@pytest.fixture
def storage() -> MemoryStorage:
    """With a write under way."""
    storage = MemoryStorage(uuid.uuid4().hex)
    open_write(storage, BASE, TIME)
    return storage


def output(storage: MemoryStorage) -> TaskOutput:
    return TaskOutput(FileSettings(storage, BASE, TIME, pa.schema([]), "{}"), 0, "0-0-0")


@dataclass(frozen=True)
class SealedBeforeCreating(MemoryStorage):
    """The driver seals the write, and looks for uncounted files, at the worst moment: between marker and file."""

    def create(self, path: str) -> pa.NativeFile:
        if path.endswith(".parquet"):
            seal(self, BASE, TIME)
            assert reconcile(self, BASE, TIME, []) == []
        return super().create(path)


def test_a_marker_and_the_partition_exist_before_the_file(storage: MemoryStorage) -> None:
    output(storage).create(FILE, MarkerType.CREATE).close()
    assert storage.stat(f"{BASE}/.hoodie/.temp/{TIME}/{FILE}.marker.CREATE") is not None
    assert storage.stat(f"{BASE}/{FILE}") is not None
    assert storage.read(METAFILE).endswith(f"commitTime={TIME}\npartitionDepth=1\n".encode())


def test_a_task_removes_a_file_that_it_created_after_the_write_was_sealed(storage: MemoryStorage) -> None:
    with pytest.raises(StorageError, match="closed"):
        output(SealedBeforeCreating(storage.name)).create(FILE, MarkerType.CREATE)
    assert storage.stat(f"{BASE}/{FILE}") is None


def test_a_task_that_finishes_after_the_write_was_sealed_removes_its_files(storage: MemoryStorage) -> None:
    task = output(storage)
    task.create(FILE, MarkerType.CREATE).close()
    seal(storage, BASE, TIME)
    with pytest.raises(StorageError, match="closed"):
        task.finish()
    assert storage.stat(f"{BASE}/{FILE}") is None


def test_a_task_of_a_sealed_write_creates_no_partition(storage: MemoryStorage) -> None:
    seal(storage, BASE, TIME)
    with pytest.raises(StorageError, match="closed"):
        output(storage).create(FILE, MarkerType.CREATE)
    assert storage.list(f"{BASE}/p") == []


@pytest.mark.parametrize("torn", [b"", b"#partition metadata\n#Mon", b"commitTime=20240101000000000\npartitionDepth="])
def test_a_torn_metafile_of_a_dead_writer_is_replaced(storage: MemoryStorage, torn: bytes) -> None:
    storage.write_new(METAFILE, torn)
    output(storage).create(FILE, MarkerType.CREATE).close()
    assert storage.read(METAFILE).endswith(b"\npartitionDepth=1\n")


def test_a_metafile_of_hudi_is_not_changed(storage: MemoryStorage) -> None:
    hudi = b"#partition metadata\n#Thu Apr 18 17:32:14 CDT 2024\npartitionDepth=1\r\ncommitTime=20240418173200000\n"
    storage.write_new(METAFILE, hudi)
    output(storage).create(FILE, MarkerType.CREATE).close()
    assert storage.read(METAFILE) == hudi


def test_a_metafile_that_another_task_began_and_never_finished_is_finished(storage: MemoryStorage) -> None:
    """Both find none; the other one is first to create it, and dies."""

    @dataclass(frozen=True)
    class OtherFirst(MemoryStorage):
        def create(self, path: str) -> pa.NativeFile:
            if path == METAFILE:
                self.write_new(path, b"")
                raise AlreadyExists(17, "exists", path)
            return super().create(path)

    task = output(OtherFirst(storage.name))
    task.create(FILE, MarkerType.CREATE).close()
    assert storage.read(METAFILE) == b""
    task.finish()
    assert storage.read(METAFILE).endswith(b"\npartitionDepth=1\n")


def test_a_file_of_another_attempt_is_not_overwritten(storage: MemoryStorage) -> None:
    task = output(storage)
    task.create(FILE, MarkerType.CREATE).close()
    with pytest.raises(AlreadyExists):
        TaskOutput(replace(task.settings), 0, "0-0-0").create(FILE, MarkerType.CREATE)

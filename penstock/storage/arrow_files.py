"""Arrow IPC files that a write keeps while it runs, such as staged rows. Damage is a typed error.

On an object store `write_batch` stores a checksum with each record batch, because a file that was damaged on its way could hold
other rows without an error. `open_arrow_file` reads the files and compares the checksums. A checksum is the CRC-32 of the schema
and the batch as Arrow encodes them. A batch that was read is encoded as the batch that was written. Disks have no checksums: they
are mapped, and not read twice.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import CorruptFile, PenstockError
from penstock.storage.base import Storage
from penstock.storage.object_store import ObjectStorage
from penstock.storage.range_reader import TAIL_BYTES

#: Files of object stores up to this size are kept: one request fetches all of it. Tasks of a write read the same staged files.
_KEPT_FILE_BYTES = TAIL_BYTES
_KEPT_BYTES = 32 * 1024 * 1024
#: The name of a checksum in the metadata of a record batch.
_CHECKSUM = b"penstock.crc32"
_kept: OrderedDict[tuple[Storage, str], bytes] = OrderedDict()
_kept_lock = threading.Lock()
#: One lock for each file that is being fetched, so that threads that want the same file fetch it once.
_fetching: dict[tuple[Storage, str], threading.Lock] = {}


@dataclass(frozen=True)
class ArrowFile:
    """An open Arrow IPC file. Its batches are read when they are asked for."""

    path: str
    _reader: Any

    @property
    def num_record_batches(self) -> int:
        """The number of record batches."""
        return int(self._reader.num_record_batches)

    def get_batch(self, number: int) -> pa.RecordBatch:
        """Return one record batch. Raises CorruptFile if it is damaged."""
        with _damage_named(self.path):
            batch, metadata = self._reader.get_batch_with_custom_metadata(number)
            stored = (metadata or {}).get(_CHECKSUM)
            if stored is not None and stored != _checksum(batch):
                raise ValueError(f"the checksum of record batch {number} is wrong")
            return batch

    def read_all(self) -> pa.Table:
        """Return all rows. Raises CorruptFile if the file is damaged."""
        batches = [self.get_batch(number) for number in range(self.num_record_batches)]
        return pa.Table.from_batches(batches, self._reader.schema)


def write_batch(storage: Storage, writer: pa.ipc.RecordBatchFileWriter, batch: pa.RecordBatch) -> None:
    """Append a record batch to an Arrow IPC file on this storage; on an object store with its checksum."""
    if isinstance(storage, ObjectStorage):
        writer.write_batch(batch, custom_metadata={_CHECKSUM: _checksum(batch)})
    else:
        writer.write_batch(batch)


def _checksum(batch: pa.RecordBatch) -> bytes:
    """Return the CRC-32 of a record batch and its schema, as decimal digits."""
    return str(zlib.crc32(batch.serialize(), zlib.crc32(batch.schema.serialize()))).encode()


def open_arrow_file(storage: Storage, path: str) -> ArrowFile:
    """Open an Arrow IPC file for reading, as a memory map where the storage has them.

    Raises:
        FileNotFoundError: there is no file at the path.
        CorruptFile: the file is damaged.
    """
    with _damage_named(path):
        return ArrowFile(path, pa.ipc.open_file(_open(storage, path)))


def _open(storage: Storage, path: str) -> Any:
    """Open a file. If it is a small file of an object store, read it as a whole and keep it for the next call."""
    if not isinstance(storage, ObjectStorage):
        return storage.map(path)
    key = (storage, path)
    with _kept_lock:
        lock = _fetching.setdefault(key, threading.Lock())
    with lock:
        content = _kept.get(key)
        if content is None:
            try:
                file = storage.open(path)
            except BaseException:
                _fetching.pop(key, None)
                raise
            if file.size() > _KEPT_FILE_BYTES:
                _fetching.pop(key, None)
                return file
            content = file.read()
            _keep(key, content)
    return pa.BufferReader(content)


def _keep(key: tuple[Storage, str], content: bytes) -> None:
    """Keep the content of a file in memory for the next call. If too much is kept, the contents kept longest are dropped."""
    with _kept_lock:
        _kept[key] = content
        while sum(map(len, _kept.values())) > _KEPT_BYTES:
            dropped, _ = _kept.popitem(last=False)
            _fetching.pop(dropped, None)


@contextlib.contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Convert Arrow's errors in the `with` block to CorruptFile. Arrow raises plain OSErrors for some kinds of damage."""
    try:
        yield
    except (PenstockError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError, ValueError) as e:
        raise CorruptFile(f"the temporary file {path} is damaged or was damaged on its way: {e}. Run the write again") from e

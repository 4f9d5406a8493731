"""`open_arrow_file`: reads the Arrow IPC files that a write keeps while it runs, such as staged rows. Damage is a typed error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import CorruptFile, PenstockError
from penstock.storage.base import Storage


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
            return self._reader.get_batch(number)

    def read_all(self) -> pa.Table:
        """Return all rows. Raises CorruptFile if the file is damaged."""
        with _damage_named(self.path):
            return self._reader.read_all()


def open_arrow_file(storage: Storage, path: str) -> ArrowFile:
    """Open an Arrow IPC file, as a memory map where the storage has them. Raises FileNotFoundError, and CorruptFile."""
    with _damage_named(path):
        return ArrowFile(path, pa.ipc.open_file(storage.map(path)))


@contextlib.contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Convert Arrow's errors in the `with` block to CorruptFile. Arrow raises plain OSErrors for some kinds of damage."""
    try:
        yield
    except (PenstockError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError, ValueError) as e:
        raise CorruptFile(f"the temporary file {path} is damaged or was damaged on its way: {e}. Run the write again") from e

"""Spill files: local files for rows that do not fit in memory.

A task writes rows to a spill file, then reads them back as a memory map. The file is deleted as soon as it is mapped, so that a
task that is killed later leaves no file. The operating system keeps the bytes of the deleted file until the last reference to the
rows is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from penstock import clock
from penstock.storage.base import join
from penstock.storage.local import LocalStorage
from penstock.storage.os_errors import convert_os_errors


class SpillFile:
    """A local Arrow IPC file for rows that do not fit in memory. Call `write` for all rows, then `read` once, and always `close`.

    Args:
        folder: the folder of the file. It is created if it does not exist.
    """

    def __init__(self, folder: str) -> None:
        self._storage = LocalStorage()
        self._path = join(folder, f"penstock-{clock.new_uuid()}.arrow")
        self._sink: Any = None
        self._writer: Any = None

    def write(self, table: pa.Table) -> None:
        """Append rows to the spill file. The first call creates the file."""
        with convert_os_errors(self._path):
            if self._writer is None:
                self._sink = self._storage.create(self._path)
                self._writer = pa.ipc.new_file(self._sink, table.schema)
            self._writer.write_table(table)

    def read(self) -> list[pa.Table]:
        """Return all rows as memory-mapped tables, one per record batch. After this call no rows can be written."""
        if self._writer is None:
            return []
        with convert_os_errors(self._path):
            self._writer.close()
            self._sink.close()
            reader = pa.ipc.open_file(self._storage.map(self._path))
        self._storage.delete(self._path)  # the mapping keeps the bytes
        return [pa.Table.from_batches([reader.get_batch(number)]) for number in range(reader.num_record_batches)]

    def close(self) -> None:
        """Delete the spill file, unless `read` already deleted it. Tables that `read` returned stay valid."""
        if self._sink is not None:
            self._sink.close()
        self._storage.delete(self._path)


def spill_tables(tables: Iterable[pa.Table], folder: str) -> list[pa.Table]:
    """Write tables of one schema to a spill file; return the same rows as memory-mapped tables.

    Args:
        folder: the folder of the spill file. It is created if it does not exist.
    """
    file = SpillFile(folder)
    try:
        for table in tables:
            file.write(table)
        return file.read()
    finally:
        file.close()

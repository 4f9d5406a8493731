"""Writing log files: changed rows and deleted keys of one file slice in, log files and their write stats out.

No block is ever appended to an existing file. Every attempt of a task creates log files of its own. Their version is greater than
those of the log files that the slice had when the write was planned. Their write token names the attempt and the write
(`names.mark_token`). A reader accepts every block of a committed instant, so the files of failed attempts must be deleted before
the write is published: `reconcile` (`commit/markers.py`) finds them by their markers.

Each call of `write` encodes and writes its rows at once, so only the rows of one call and one encoded block are in memory.
Deletes follow the last rows, in one delete block. A file that exceeds its size limit is closed when more rows come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.filegroup.fill_meta_columns import KEY_COLUMN, stamp_rows
from penstock.filegroup.key_changes import KeyChange
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.model import FileSlice
from penstock.filegroup.names import log_file_name, mark_token
from penstock.filegroup.task_output import TaskOutput
from penstock.formats.log import encode_avro_block, encode_delete_block, encode_parquet_block
from penstock.formats.log.deletes import Deletes
from penstock.merge.kernels.gather import Positions
from penstock.schema import META_COLUMNS
from penstock.storage import join
from penstock.storage.os_errors import convert_os_errors
from penstock.timeline.commit_file import WriteStat

#: Readers take blocks below 2 GiB. The size of a block is estimated before it is encoded, so blocks stay far below.
_MOST_BLOCK_BYTES = 1 << 30


class BlockFormat(str, Enum):
    """The format in which data blocks of a log store rows."""

    AVRO = "avro"
    PARQUET = "parquet"


@dataclass(frozen=True)
class LogSettings:
    """Settings of the log files of one write, the same for all of its tasks. Pickled to the workers.

    `insert_ratio` is the option `hoodie.logfile.to.parquet.compression.ratio`; None: new rows go to base files, not to logs.
    `compared` is the column by which readers compare log rows with base rows, which must not be null; None: there is none.
    """

    block_format: BlockFormat = BlockFormat.AVRO
    max_block_bytes: int = 256 * 1024 * 1024
    max_file_bytes: int = 1024 * 1024 * 1024
    #: `hoodie.logfile.to.parquet.compression.ratio`: bytes of new rows in a log times this estimates their bytes in a base file,
    #: which limits how many go to a log. Set if the index finds keys in logs. None: new rows go to base files.
    insert_ratio: float | None = None
    #: The column by which readers compare log rows with base rows. It may not be null in any row. None: there is no such column.
    compared: str | None = None


@dataclass
class _Counts:
    """How many rows of a log file are updates and inserts, and how many keys it deletes."""

    updates: int = 0
    inserts: int = 0
    deletes: int = 0


@dataclass
class _OpenFile:
    """A log file that is being written, with its size and counts so far."""

    path: str
    version: int
    sink: pa.NativeFile
    size_bytes: int = 0
    counts: _Counts = field(default_factory=_Counts)

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return self.path.rpartition("/")[2]


class LogWriter:
    """Writes the log files that one task adds to a file slice.

    Args:
        output: the task that the files belong to. It creates the files and their markers.
        target: the slice. Its base instant becomes part of file names. New versions follow those of its log files with that base
            instant. While a compaction is pending, the base instant is that of the compaction.
    """

    def __init__(self, output: TaskOutput, target: FileSlice, settings: LogSettings) -> None:
        self._output = output
        self._target = target
        self._settings = settings
        earlier = [log for log in target.log_files if log.base_instant == target.base_instant]
        self._version = max((log.version for log in earlier), default=0)
        self._names = [log.name for log in earlier]
        #: The mean size of a row in the block before; 0: no Avro block was written yet.
        self._row_bytes = 0.0
        self._open: _OpenFile | None = None
        self._stats: list[WriteStat] = []
        output.reserve_row_numbers(1)  # rows of a log are numbered from 1, those of a base file from 0

    def write(
        self, rows: pa.Table, keys: pa.ChunkedArray, positions: Positions | None = None, *, are_updates: bool = True
    ) -> None:
        """Write rows as one data block, or as several if they are too large for one.

        Args:
            rows: the data columns of the rows.
            keys: the record key of each row.
            positions: the positions in the base file of the rows that these rows change, ascending; None: not all are known.
            are_updates: whether the rows' keys are in the slice already. Otherwise the rows count as inserts.
        """
        body = self._stamp(rows, keys)
        start = 0
        while start < body.num_rows:
            part = body.slice(start, self._count_rows_that_fit(body))
            part_positions = None if positions is None else positions[start : start + part.num_rows]
            self._write_block(part, part_positions, are_updates)
            start += part.num_rows

    def delete(self, deletes: Deletes, positions: Positions | None = None) -> None:
        """Write deleted keys as one delete block, to the open log file whatever its size, or to a new file if none is open.

        Args:
            deletes: the deleted keys. Nothing is written if there are none.
            positions: the positions of the deleted rows in the base file; None: not all are known.
        """
        if not len(deletes):
            return
        file = self._open or self._open_next()
        file.counts.deletes += len(deletes)
        instant = self._output.settings.instant
        self._append(file, encode_delete_block(deletes, instant=instant, schema=self._schema, positions=positions))

    def note_removed(self, keys: pa.ChunkedArray) -> None:
        """Record that this write removes these keys from the slice, for an index that stores an entry per key outside the table.

        Call after `write` or `delete`: nothing is recorded if no log file is open.
        """
        if self._open is not None:
            self._output.key_changes.add(KeyChange.REMOVED, self._open.name, keys)

    def close(self) -> list[WriteStat]:
        """Close the open file; return the write stat of each file. The list is empty if nothing was written."""
        self._finish()
        return self._stats

    @property
    def written_bytes(self) -> int:
        """Bytes of all log files of this writer so far."""
        return sum(stat.total_write_bytes for stat in self._stats) + (self._open.size_bytes if self._open else 0)

    @property
    def _schema(self) -> str:
        """The Avro schema of the rows with meta columns, as JSON, which goes into block headers."""
        return self._output.settings.avro_schema

    def _stamp(self, rows: pa.Table, keys: pa.ChunkedArray) -> pa.Table:
        """Return the rows with the five meta columns in front. As in Hudi, `_hoodie_file_name` of a log row is the file id."""
        settings = self._output.settings
        count = rows.num_rows
        first = self._output.reserve_row_numbers(count)
        numbers = np.arange(first, first + count)
        body = stamp_rows(rows, keys, instant=settings.instant, task=self._output.task, numbers=numbers)
        for position, text in ((3, self._target.partition_path), (4, self._target.file_id)):
            body = body.add_column(position, META_COLUMNS[position], pa.repeat(text, count))
        return body

    def _count_rows_that_fit(self, rows: pa.Table) -> int:
        """Estimate how many rows fit in a block: by the row size in the last Avro block if there is one, otherwise in memory."""
        most = min(self._settings.max_block_bytes, _MOST_BLOCK_BYTES)
        bytes_per_row = self._row_bytes or max(1.0, rows.nbytes / rows.num_rows)
        return max(1, int(most / bytes_per_row))

    def _write_block(self, rows: pa.Table, positions: Positions | None, are_updates: bool) -> None:
        """Write rows with meta columns as one data block, to a new file if the open file exceeds its size limit."""
        if self._open is not None and self._open.size_bytes > self._settings.max_file_bytes:
            self._finish()
        settings = self._output.settings
        header: dict[str, Any] = {"instant": settings.instant, "schema": self._schema, "positions": positions}
        if self._settings.block_format is BlockFormat.PARQUET:
            block = encode_parquet_block(rows, codec=settings.codec, **header)
        else:
            block = encode_avro_block(rows, **header)
            self._row_bytes = len(block) / rows.num_rows
        file = self._open or self._open_next()
        if are_updates:
            file.counts.updates += rows.num_rows
        else:
            file.counts.inserts += rows.num_rows
            self._output.key_changes.add(KeyChange.ADDED, file.name, rows[KEY_COLUMN])
        self._append(file, block)

    def _append(self, file: _OpenFile, block: bytes) -> None:
        """Append an encoded block to an open log file."""
        with convert_os_errors(file.path):
            file.sink.write(block)
        file.size_bytes += len(block)

    def _open_next(self) -> _OpenFile:
        """Create the log file with the next version, and return it open for writing."""
        self._version += 1
        target = self._target
        token = mark_token(self._output.write_token, self._output.settings.instant)
        name = log_file_name(target.file_id, target.base_instant, self._version, token)
        path = join(target.partition_path, name) if target.partition_path else name
        self._names.append(name)
        self._open = _OpenFile(path, self._version, self._output.create(path, MarkerType.APPEND))
        return self._open

    def _finish(self) -> None:
        """Close the open file, if there is one, and collect its write stat."""
        if self._open is None:
            return
        file = self._open
        self._open = None
        with convert_os_errors(file.path):
            file.sink.close()
        self._stats.append(self._stat(file))

    def _stat(self, file: _OpenFile) -> WriteStat:
        """Return the write stat of a closed log file."""
        target = self._target
        base = target.base_file
        is_on_base = base is not None and base.instant == target.base_instant
        return WriteStat(
            file_id=target.file_id,
            partition_path=target.partition_path,
            path=file.path,
            prev_commit=target.base_instant,
            num_writes=file.counts.updates + file.counts.inserts,
            num_update_writes=file.counts.updates,
            num_inserts=file.counts.inserts,
            num_deletes=file.counts.deletes,
            total_write_bytes=file.size_bytes,
            file_size_in_bytes=file.size_bytes,
            log=log_fields(version=file.version, base_file=base.name if base and is_on_base else "", log_files=self._names),
        )


def log_fields(*, version: int, base_file: str, log_files: Sequence[str]) -> dict[str, Any]:
    """Return the fields that the write stat of a log file has in addition to those of a base file.

    Args:
        version: the version of the log file.
        base_file: the name of the slice's base file; empty if there is none.
        log_files: the names of the slice's log files up to this one.
    """
    return {
        "logVersion": version,
        "logOffset": 0,
        "baseFile": base_file,
        "logFiles": list(log_files),
        "recordsStats": {"val": None},
    }

"""Copies data files of one write for another one: the same rows, with another instant in the meta columns and file names.

A write that runs again after a conflict has a new instant. Files that it would write again with the same rows are copied from its
first attempt. In a row, only the commit time and the beginning of the sequence number hold the instant. The name of a file holds
it too, and is also in the rows of a base file. So a copy of a base file encodes three columns again and copies the bytes of all
others. In an Avro block of a log the instant has the same number of bytes in each record, and is replaced in place.

Rows that the first attempt did not change have the instants of other writes, and keep them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import CorruptFile
from penstock.filegroup.fill_meta_columns import repeat_text
from penstock.formats.avro.block import find_records
from penstock.formats.log import encode_block, read_content, scan_blocks
from penstock.formats.log.block import BlockType, HeaderKey, LogBlock
from penstock.formats.parquet_columns import copy_with_columns
from penstock.schema import META_COLUMNS

_COMMIT_TIME, _SEQUENCE_NUMBER, _, _, _FILE_NAME = META_COLUMNS
#: In Avro: a string follows, and not null.
_IS_STRING = 2


@dataclass(frozen=True)
class Instants:
    """The instant of the write whose files are copied, and the instant of the copies. Both have the same length."""

    old: str
    new: str

    def replace(self, instant: str) -> str:
        """Return the new instant for the old one, and any other instant unchanged."""
        return self.new if instant == self.old else instant


def restamp_base_file(source: Any, sink: Any, instants: Instants, codec: str, file_name: str | None) -> int:
    """Copy an open base file, with a new instant and file name in the meta columns. Return the size of the copy.

    Args:
        source: the open file.
        sink: the stream to which the copy is written.
        codec: the compression codec of the columns that are encoded again, by Hudi's name.
        file_name: the name of the copy; None: the column `_hoodie_file_name` stays unchanged.
    """
    file = pq.ParquetFile(source, read_dictionary=[_COMMIT_TIME], pre_buffer=False)

    def make_columns(row_group: int) -> pa.Table:
        """Return the new meta columns of a row group."""
        stored = file.read_row_group(row_group, columns=[_COMMIT_TIME, _SEQUENCE_NUMBER], use_threads=False)
        columns = restamp_rows(stored, instants)
        if file_name is not None:
            columns = columns.append_column(_FILE_NAME, repeat_text(file_name, columns.num_rows))
        return columns

    return copy_with_columns(source, sink, make_columns, codec)


def restamp_log(source: Any, sink: Any, instants: Instants, codec: str) -> int:
    """Copy an open log file whose blocks are all of one write, with a new instant. Return the size of the copy.

    Args:
        source: the open file.
        sink: the stream to which the copy is written.
        codec: the compression codec of the columns of Parquet blocks that are encoded again, by Hudi's name.
    """
    size = 0
    for block in scan_blocks(source):
        data = encode_block(block.type, _restamp_header(block, instants), _restamp_content(source, block, instants, codec))
        sink.write(data)
        size += len(data)
    return size


def restamp_rows(rows: pa.Table, instants: Instants) -> pa.Table:
    """Return rows with a new instant in commit times and sequence numbers. Rows of other instants stay unchanged.

    Args:
        rows: the columns commit time and sequence number.
    """
    times = rows[_COMMIT_TIME]
    is_restamped = pc.equal(times.cast(pa.string()), instants.old)
    numbers = rows[_SEQUENCE_NUMBER]
    restamped = pc.utf8_replace_slice(numbers, 0, len(instants.old), instants.new)
    return pa.table(
        {
            _COMMIT_TIME: pc.if_else(is_restamped, instants.new, times.cast(pa.string())),
            _SEQUENCE_NUMBER: pc.if_else(is_restamped, restamped, numbers),
        }
    )


def _restamp_header(block: LogBlock, instants: Instants) -> dict[HeaderKey, str]:
    """Return the header of a block with the new instant.

    Raises:
        CorruptFile: the block is damaged, or of another write.
    """
    if block.type is BlockType.CORRUPT or block.instant != instants.old:
        raise CorruptFile(f"{block.place}: not a block of {instants.old}")
    header = {HeaderKey(key): text for key, text in block.header.items()}
    header[HeaderKey.INSTANT_TIME] = instants.new
    return header


def _restamp_content(source: Any, block: LogBlock, instants: Instants, codec: str) -> Any:
    """Return the content of a log block, with the new instant in the meta columns of its rows.

    The content of a delete block is returned unchanged: only its header holds the instant.
    """
    content = read_content(source, block)
    if block.type is BlockType.AVRO_DATA:
        return _restamp_records(content, block, instants)
    if block.type is BlockType.PARQUET_DATA:
        sink = pa.BufferOutputStream()
        restamp_base_file(pa.BufferReader(content), sink, instants, codec, None)
        return sink.getvalue()
    return content


def _restamp_records(content: pa.Buffer, block: LogBlock, instants: Instants) -> np.ndarray:
    """Return the records of an Avro block with the new instant in the first two fields: commit time and sequence number.

    Raises:
        CorruptFile: a record does not begin with the old instant.
    """
    data = np.frombuffer(content, np.uint8).copy()
    starts, _ = find_records(content)
    old, new = (np.frombuffer(instant.encode(), np.uint8) for instant in (instants.old, instants.new))
    # Both fields: the branch of the union with null, the length of the string as a varint of one byte, the instant.
    fields = (starts, starts + 2 + len(old))
    zigzag_length = len(old) * 2
    for number, begins in enumerate(fields):
        places = begins[:, None] + 2 + np.arange(len(old))
        fits = places.size == 0 or places.max() < len(data)
        if not fits or (data[begins] != _IS_STRING).any() or (number == 0 and (data[begins + 1] != zigzag_length).any()):
            raise CorruptFile(f"{block.place}: a record that does not begin with its meta columns")
        if (data[places] != old).any():
            raise CorruptFile(f"{block.place}: a record that is not of {instants.old}")
        data[places] = new
    return data

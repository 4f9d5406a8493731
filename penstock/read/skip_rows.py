"""Reads base files without the rows that their logs touch (change or delete).

Spark's scan of the base files is anti-joined with a broadcast DataFrame of bits. This DataFrame has one row per base file, with
one bit per row of that file: 1 means touched. The bits reach the JVM as JSON that Spark parses there. So no Python worker is
started for them, and each executor receives them once. If a user later adds a filter or a choice of columns to the result, Spark
pushes it through the join down to the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.filegroup.model import BaseFile, FileSlice
from penstock.merge.kernels.gather import Positions

_FILE = "__penstock_file"
_ROW = "__penstock_row"
_BITS_FILE = "__penstock_of"
_WORDS = "__penstock_words"


def skip_rows(scan: DataFrame, columns: Sequence[Column | str], touched: Mapping[FileSlice, Positions]) -> DataFrame:
    """Return `columns` of a scan of base files, without the rows that the log files of the slices change or delete.

    Args:
        scan: a DataFrame in which Spark reads base files.
        columns: the names or expressions to select.
        touched: slice → the positions of the rows to leave out of its base file.
    """
    files = [(file_slice.base_file, positions) for file_slice, positions in touched.items() if file_slice.base_file]
    key = _choose_file_key([file for file, _ in files])
    texts = [(file.size_bytes if key.is_size else file.name, _words_text(positions)) for file, positions in files]
    listed = scan.sparkSession.createDataFrame(texts, f"{_BITS_FILE} {key.type}, text string")
    bits = listed.select(_BITS_FILE, F.from_json("text", "array<bigint>").alias(_WORDS))
    numbered = scan.select(*columns, F.col(key.column).alias(_FILE), F.col("_metadata.row_index").alias(_ROW))
    # Bit n of a file is bit n % 64 of its word n / 64. A file has no words behind its last touched row: `get` is null there.
    bit = f"getbit(get({_WORDS}, cast(shiftright({_ROW}, 6) as int)), cast({_ROW} & 63 as int))"
    is_touched = F.expr(f"{_FILE} = {_BITS_FILE} and coalesce({bit}, 0) = 1")
    return numbered.join(F.broadcast(bits), is_touched, "left_anti").drop(_FILE, _ROW)


class _FileKey(NamedTuple):
    """The `_metadata` column that identifies the file of each row: the file size if `is_size`, otherwise the file name."""

    is_size: bool
    column: str
    type: str


def _choose_file_key(files: Sequence[BaseFile]) -> _FileKey:
    """Choose how the join identifies files: by size if all sizes differ, otherwise by name. Comparing sizes is much faster."""
    if len({file.size_bytes for file in files}) == len(files):
        return _FileKey(True, "_metadata.file_size", "bigint")
    return _FileKey(False, "_metadata.file_name", "string")


def _words_text(positions: Positions) -> str:
    """Return row positions as bits: a JSON list of 64-bit words. Bit n % 64 of word n // 64 is 1 if n is in `positions`."""
    bits = np.zeros(64 * (1 + int(positions.max(initial=0)) // 64), np.uint8)
    bits[positions] = 1
    words = np.packbits(bits, bitorder="little").view("<i8").tolist()
    return f"[{','.join(map(str, words))}]"

"""The rows of base files that no log touches: an anti-join of Spark's scan with a bit for each row, broadcast by file.

The bits reach the JVM as text that Spark reads there, so no Python worker is started for them, and they reach each executor
once. Filters, columns and partitions that a query names later pass through such a join to the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.filegroup.model import BaseFile, FileSlice
from penstock.merge.kernels.gather import Positions

_FILE, _ROW, _OF, _WORDS = "__penstock_file", "__penstock_row", "__penstock_of", "__penstock_words"


def leave_out(scan: DataFrame, columns: Sequence[Column | str], touched: Mapping[FileSlice, Positions]) -> DataFrame:
    """These columns of a scan of the slices' base files, and of no others, without the rows at these positions."""
    files = [(slice_.base_file, positions) for slice_, positions in touched.items() if slice_.base_file]
    by = _file_key([file for file, _ in files])
    texts = [(file.size_bytes if by.is_size else file.name, _words(positions)) for file, positions in files]
    listed = scan.sparkSession.createDataFrame(texts, f"{_OF} {by.kind}, text string")
    bits = listed.select(_OF, F.from_json("text", "array<bigint>").alias(_WORDS))
    placed = scan.select(*columns, F.col(by.column).alias(_FILE), F.col("_metadata.row_index").alias(_ROW))
    bit = f"getbit(get({_WORDS}, cast(shiftright({_ROW}, 6) as int)), cast({_ROW} & 63 as int))"
    is_touched = F.expr(f"{_FILE} = {_OF} and coalesce({bit}, 0) = 1")
    return placed.join(F.broadcast(bits), is_touched, "left_anti").drop(_FILE, _ROW)


class _FileKey(NamedTuple):
    """What tells the files of a scan apart, as Spark knows it of every row."""

    is_size: bool
    column: str
    kind: str


def _file_key(files: Sequence[BaseFile]) -> _FileKey:
    """Their sizes, if no two are alike: a number is found for each row in a fraction of the time that a name takes."""
    if len({file.size_bytes for file in files}) == len(files):
        return _FileKey(True, "_metadata.file_size", "bigint")
    return _FileKey(False, "_metadata.file_name", "string")


def _words(positions: Positions) -> str:
    """A list of numbers whose bits, the lowest first, say which rows are among the positions."""
    bits = np.zeros(64 * (1 + int(positions.max(initial=0)) // 64), np.uint8)
    bits[positions] = 1
    return f"[{','.join(map(str, np.packbits(bits, bitorder='little').view('<i8').tolist()))}]"

"""Sends rows that the driver holds as an Arrow table to Spark, with every Spark release, on classic sessions and Spark Connect.

The table is cut into pieces of at most 65,536 rows. Each piece is one binary value of a small DataFrame, in Arrow's stream
format, and Spark's Python workers decode it. So types and nulls arrive exactly, and no Python object is made for a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.workers.prepare import prepare_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PIECE_ROWS = 64 * 1024
_PIECE_BYTES = 8 * 1024 * 1024


def send_rows(spark: SparkSession, rows: pa.Table, struct: StructType) -> DataFrame:
    """Return a DataFrame with the rows of an Arrow table. The rows are decoded when a Spark job reads the DataFrame.

    Args:
        rows: the rows, in the Arrow types in which workers return rows to Spark (`schema.spark_to_arrow`).
        struct: the columns of the DataFrame.
    """
    prepare_workers(spark)
    pieces = [(_encode(piece),) for piece in _cut(rows)]
    return spark.createDataFrame(pieces, "rows binary").mapInArrow(_decode_pieces, struct)


def _cut(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows in smaller Arrow tables of at most `_PIECE_ROWS` rows and about `_PIECE_BYTES` bytes each."""
    row_bytes = rows.nbytes / max(rows.num_rows, 1)
    step = max(1, min(_PIECE_ROWS, int(_PIECE_BYTES / max(row_bytes, 1))))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _encode(piece: pa.Table) -> bytearray:
    """Return the bytes of an Arrow table in Arrow's IPC stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, piece.schema) as stream:
        stream.write_table(piece.combine_chunks())
    return bytearray(sink.getvalue())


def _decode_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the pieces (Arrow tables in stream format) in the first column of these batches; yield their rows as batches.

    Runs in a Spark worker.
    """
    for batch in batches:
        for piece in batch.column(0):
            yield from pa.ipc.open_stream(piece.as_buffer())

"""Reading base files: one row group at a time, in the schema that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import CorruptFile
from penstock.formats.cast import fit_to_schema
from penstock.merge.kernels.gather import Positions, take_rows
from penstock.storage import Storage


def open_base_file(storage: Storage, path: str) -> pq.ParquetFile:
    """Open a base file. Raises CorruptFile if it is missing or not Parquet."""
    try:
        source = storage.open(path)
    except FileNotFoundError as e:
        raise CorruptFile(f"base file {path} is missing, although the timeline says it is part of the table") from e
    try:
        return pq.ParquetFile(source, memory_map=False, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as e:
        raise CorruptFile(f"base file {path} cannot be read as Parquet: {e}") from e


def read_row_groups(
    file: pq.ParquetFile, path: str, schema: pa.Schema, columns: Sequence[str] | None = None, at: Positions | None = None
) -> Iterator[pa.Table]:
    """A base file's rows, row group by row group, fitted to `schema` (its columns only, or `columns` of them).

    Args:
        at: the numbers of the rows that are wanted, ascending; row groups without any are not read. None: all rows.
    """
    wanted = [n for n in (columns or schema.names) if n in file.schema_arrow.names]
    target = schema if columns is None else pa.schema([schema.field(c) for c in columns])
    start = 0
    for group in range(file.metadata.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        inside = None if at is None else at[np.searchsorted(at, start) : np.searchsorted(at, end)] - start
        start = end
        if inside is None:
            yield _read_row_group(file, path, group, wanted, target)  # and held nowhere here while the next one is read
        elif len(inside):
            yield take_rows(_read_row_group(file, path, group, wanted, target), inside)


def read_ahead(rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same tables, each read while the one before is worked on: decoding and encoding then use a core each."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, rows, None)
        while (table := coming.result()) is not None:
            coming = pool.submit(next, rows, None)
            yield table
            del table  # before the next one is waited for


def _read_row_group(file: pq.ParquetFile, path: str, group: int, columns: list[str], target: pa.Schema) -> pa.Table:
    try:
        table = file.read_row_group(group, columns=columns, use_threads=False)
    except (pa.ArrowInvalid, OSError) as e:
        raise CorruptFile(f"base file {path} is damaged in row group {group}: {e}") from e
    return fit_to_schema(table, target)

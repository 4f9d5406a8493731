"""Reading base files: one row group at a time, cast to the schema that a query or write asks for."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import CorruptFile
from penstock.formats.cast import fit_to_schema
from penstock.merge.kernels.gather import Positions, take_rows
from penstock.storage import Storage, has_whole_files

#: Base files that are opened before they are asked for. Each holds the end of its file in memory, half a megabyte.
_OPENED_AHEAD = 32


def open_base_file(storage: Storage, path: str) -> pq.ParquetFile:
    """Open a base file for reading. Raises CorruptFile if the file is missing or not Parquet."""
    try:
        source = storage.open(path)
    except FileNotFoundError as e:
        raise CorruptFile(f"base file {path} is missing, although the timeline says it is part of the table") from e
    try:
        return pq.ParquetFile(source, memory_map=False, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as e:
        raise CorruptFile(f"base file {path} cannot be read as Parquet: {e}") from e


def open_base_files(storage: Storage, paths: Sequence[str]) -> Iterator[pq.ParquetFile]:
    """Yield base files, opened in this order. On an object store, threads open the next few files ahead of time.

    Raises CorruptFile if a file is missing or not Parquet.
    """
    if not has_whole_files(storage) or len(paths) < 2:
        yield from (open_base_file(storage, path) for path in paths)
        return
    with ThreadPoolExecutor(_OPENED_AHEAD) as pool:
        coming: deque[Future[pq.ParquetFile]] = deque()
        waiting = iter(paths)
        for _ in paths:
            while len(coming) < _OPENED_AHEAD and (path := next(waiting, None)) is not None:
                coming.append(pool.submit(open_base_file, storage, path))
            yield coming.popleft().result()


def read_row_groups(
    file: pq.ParquetFile,
    path: str,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    positions: Positions | None = None,
    *,
    row_groups: Container[int] | None = None,
    use_threads: bool = False,
) -> Iterator[pa.Table]:
    """Yield a base file's rows, one table per row group, cast to `schema`. A column that the file lacks is null.

    Args:
        path: the file's path, for error messages.
        schema: the columns to return, with the types to cast to.
        columns: the names of the columns of `schema` to read; None: all.
        positions: the positions in the file of the rows to read, ascending; row groups without any of them are skipped. None: all
            rows are read.
        row_groups: the numbers of the row groups to read; None: all.
        use_threads: whether Arrow decodes the columns of a row group on several threads.
    """
    stored = frozenset(file.schema_arrow.names)
    wanted = [name for name in (columns or schema.names) if name in stored]
    target = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    start = 0
    for group in range(file.metadata.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        if row_groups is not None and group not in row_groups:
            pass
        elif positions is None:
            # No variable holds the table: it would stay in memory while the next row group is read.
            yield _read_row_group(file, path, group, wanted, target, use_threads)
        else:
            in_group = positions[np.searchsorted(positions, start) : np.searchsorted(positions, end)] - start
            if len(in_group):
                yield take_rows(_read_row_group(file, path, group, wanted, target, use_threads), in_group)
        start = end


def read_ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the given Arrow tables. A thread fetches the next one from the iterator while the current one is in use."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = pool.submit(next, tables, None)
            yield table
            del table  # frees the table before waiting for the next one


def _read_row_group(
    file: pq.ParquetFile, path: str, group: int, columns: list[str], target: pa.Schema, use_threads: bool
) -> pa.Table:
    """Read the `columns` of row group number `group`, cast to `target`. Raises CorruptFile if the row group is damaged."""
    try:
        table = file.read_row_group(group, columns=columns, use_threads=use_threads)
    except (pa.ArrowInvalid, OSError) as e:
        raise CorruptFile(f"base file {path} is damaged in row group {group}: {e}") from e
    return fit_to_schema(table, target)

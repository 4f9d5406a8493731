"""Reading base files: one row group at a time, in the schema that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import CorruptFile
from penstock.formats.fit import fit
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
    file: pq.ParquetFile, path: str, schema: pa.Schema, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """A base file's rows, row group by row group, fitted to `schema` (its columns only, or `columns` of them)."""
    wanted = [n for n in (columns or schema.names) if n in file.schema_arrow.names]
    target = schema if columns is None else pa.schema([schema.field(c) for c in columns])
    for group in range(file.metadata.num_row_groups):
        yield _read_row_group(file, path, group, wanted, target)  # and held nowhere here while the next one is read


def _read_row_group(file: pq.ParquetFile, path: str, group: int, columns: list[str], target: pa.Schema) -> pa.Table:
    try:
        table = file.read_row_group(group, columns=columns, use_threads=False)
    except (pa.ArrowInvalid, OSError) as e:
        raise CorruptFile(f"base file {path} is damaged in row group {group}: {e}") from e
    return fit(table, target)

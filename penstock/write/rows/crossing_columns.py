"""The columns that Spark sends from the JVM to a Python worker, and how the worker splits them into data, keys and paths.

Sending a row from the JVM to Python ("crossing") is the most expensive step of a write, so no string is sent twice. A record key
or partition path that is a plain string column of the rows is read from that column. Only a key or path that is computed from
columns is sent as a column of its own (`KEY`, `PATH`). `schema.py` decides which columns are sent. `staging.py` and bulk_insert
split the rows with `split_by_partition`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RecordKeyError
from penstock.keys.partition_path import DEFAULT_PARTITION, check_partition_path

#: Names of the columns with computed record keys and partition paths.
KEY = "_penstock_key"
PATH = "_penstock_path"


@dataclass(frozen=True)
class CrossingColumns:
    """The columns of incoming rows that Spark sends to a Python worker, and which of them are the record key and partition path.

    Workers use it to take received rows apart. Pickled to the workers.
    """

    #: The data columns with the types that files store, in order.
    schema: pa.Schema
    #: The column with the record key; None if the worker generates keys.
    key: str | None
    #: The column with the partition path; None for a table without partitions.
    path: str | None
    #: Whether the key column is a column of the incoming rows. Then the worker checks it for null and empty keys.
    key_is_plain: bool = False
    #: Whether the path column is a column of the incoming rows. Then the worker replaces null and empty paths by the default
    #: partition.
    path_is_plain: bool = False


@dataclass(frozen=True)
class PartitionRows:
    """Incoming rows of one partition path, in the types that data files store, with their record keys.

    `keys` is None if the writer generates record keys.
    """

    path: str
    #: The data columns, without meta columns.
    table: pa.Table
    #: The record keys of the rows; None if the worker generates keys.
    keys: pa.ChunkedArray | None


@dataclass(frozen=True)
class GroupedRows:
    """Incoming rows in one Arrow table, sorted by partition path.

    The rows of the partition path `paths[i]` are those from `starts[i]` up to, but not including, `starts[i + 1]`.
    """

    #: The partition paths.
    paths: tuple[str, ...]
    #: The position of the first row of each path, and at the end the number of rows.
    starts: tuple[int, ...]
    #: The data columns of all rows, without meta columns.
    table: pa.Table
    #: The record keys of all rows; None if the worker generates keys.
    keys: pa.ChunkedArray | None


def split_by_partition(crossing: CrossingColumns, batch: pa.RecordBatch | pa.Table) -> Iterator[PartitionRows]:
    """Yield the rows of a batch grouped by partition path, cast to the types that data files store.

    Rows of a path keep their order. Called in a worker for each batch of incoming rows.

    Args:
        crossing: which columns Spark sends, and which of them are record key and partition path.
        batch: rows as Spark sent them.

    Raises:
        RecordKeyError: a record key is null or empty.
    """
    if batch.num_rows == 0:
        return
    grouped = group_by_partition(crossing, batch)
    if len(grouped.paths) == 1:
        yield PartitionRows(grouped.paths[0], grouped.table, grouped.keys)
        return
    for number, path in enumerate(grouped.paths):
        start = grouped.starts[number]
        count = grouped.starts[number + 1] - start
        keys = None if grouped.keys is None else grouped.keys.slice(start, count)
        yield PartitionRows(path, grouped.table.slice(start, count), keys)


def group_by_partition(crossing: CrossingColumns, batch: pa.RecordBatch | pa.Table) -> GroupedRows:
    """Return the rows of a batch sorted by partition path, and cast to the types that data files store.

    Rows of a path keep their order. The paths are in the order of their first rows.

    Args:
        crossing: which columns Spark sends, and which of them are record key and partition path.
        batch: rows as Spark sent them; at least one row.

    Raises:
        RecordKeyError: a record key is null or empty.
    """
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    keys = crossing_keys(crossing, table)
    paths = crossing_paths(crossing, table)
    data = cast_to_stored(table.select(crossing.schema.names), crossing.schema)
    if paths is None:
        return GroupedRows(("",), (0, batch.num_rows), data, keys)
    encoded = paths.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()  # the distinct paths of one batch, not one string per row
    for name in names:
        check_partition_path(name)
    if len(names) == 1:
        return GroupedRows((names[0],), (0, batch.num_rows), data, keys)
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    data = data.take(pa.array(order))
    keys = None if keys is None else keys.take(pa.array(order))
    starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
    return GroupedRows(tuple(names), tuple(starts.tolist()), data, keys)


def cast_to_stored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows cast to the types that data files store. If they have these types already, nothing is copied.

    Args:
        schema: the columns of the rows, with the types that data files store.
    """
    return table if table.schema.equals(schema) else table.cast(schema)


def crossing_keys(crossing: CrossingColumns, table: pa.Table) -> pa.ChunkedArray | None:
    """Return the record keys of rows that Spark sent to this worker; None if the worker generates keys.

    Args:
        crossing: which column holds the keys.

    Raises:
        RecordKeyError: a key is null or empty.
    """
    if crossing.key is None:
        return None
    keys = table[crossing.key]
    if not crossing.key_is_plain:
        return keys  # the expression that computed the key has checked it
    if keys.null_count:
        raise _missing_key(crossing.key, "null")
    if pc.any(pc.equal(pc.binary_length(keys), 0)).as_py():
        raise _missing_key(crossing.key, "")
    return keys


def _missing_key(column: str, value: str) -> RecordKeyError:
    """Return the error for a null or empty record key.

    Args:
        column: the record key column.
        value: the key as the message shows it: `null`, or an empty string.
    """
    return RecordKeyError(
        f'recordKey value: "{value}" for field: "{column}" cannot be null or empty. '
        f"Filter such rows out, or choose another record key than {column}"
    )


def crossing_paths(crossing: CrossingColumns, table: pa.Table) -> pa.ChunkedArray | None:
    """Return the partition paths of rows that Spark sent to this worker; None if the table has no partitions.

    Null and empty paths become the default partition.

    Args:
        crossing: which column holds the paths.
    """
    if crossing.path is None:
        return None
    paths = table[crossing.path]
    if not crossing.path_is_plain:
        return paths
    filled = pc.fill_null(paths, DEFAULT_PARTITION)
    return pc.if_else(pc.equal(filled, ""), DEFAULT_PARTITION, filled)

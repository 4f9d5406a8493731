"""The sort modes of bulk_insert: how Spark shuffles and sorts the incoming rows before tasks write them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock import options as o
from penstock.columns import quoted
from penstock.errors import OptionError, SchemaError
from penstock.write.rows.crossing_columns import CrossingColumns
from penstock.write.rows.schema import PreparedRows
from penstock.write.settings import WriteSettings, split_fields

_COLUMN_SORT_CLASSES = ("RowCustomColumnsSortPartitioner", "RDDCustomColumnsSortPartitioner")


def sort_rows(prepared: PreparedRows, settings: WriteSettings) -> tuple[PreparedRows, bool]:
    """Shuffle and sort the rows of a bulk_insert as the options ask. Mode `NONE` leaves them unchanged.

    The options are `hoodie.bulkinsert.sort.mode` and `hoodie.bulkinsert.user.defined.partitioner.class`.

    Returns:
        The rows, and whether each task receives them grouped by partition path. If so, a task has one file open at a time.
    """
    mode = settings.options[o.BULK_INSERT_SORT_MODE].upper()
    if mode == "NONE" and not settings.options[o.BULK_INSERT_PARTITIONER_CLASS]:
        return prepared, False
    rows, is_grouped = _sort(prepared, settings, mode)
    return prepared.with_rows(rows), is_grouped


def _sort(prepared: PreparedRows, settings: WriteSettings, mode: str) -> tuple[DataFrame, bool]:
    """Shuffle and sort the rows. Return them, and whether each task receives its rows grouped by partition path.

    Args:
        mode: the sort mode in upper case, for example `GLOBAL_SORT`. It is ignored if the options name a partitioner class.
    """
    rows = prepared.rows
    parallelism = settings.options[o.BULK_INSERT_SHUFFLE_PARALLELISM] or None
    path = _path_column(prepared.crossing)
    key = _key_column(prepared.crossing)
    user_columns = _user_sort_columns(prepared, settings)
    if user_columns is not None:
        return _sort_globally(rows, [*path, *user_columns], parallelism), True
    if mode == "GLOBAL_SORT":
        return _sort_globally(rows, [*path, *key], parallelism), True
    if mode == "PARTITION_SORT":
        if parallelism:
            rows = rows.coalesce(parallelism)
        return rows.sortWithinPartitions(*path, *key), True
    # PARTITION_PATH_REPARTITION and PARTITION_PATH_REPARTITION_AND_SORT
    if path:
        rows = rows.repartition(parallelism, *path) if parallelism else rows.repartition(*path)
    elif parallelism:
        rows = rows.coalesce(parallelism)
    if path and mode.endswith("_AND_SORT"):
        return rows.sortWithinPartitions(*path), True
    return rows, False


def _user_sort_columns(prepared: PreparedRows, settings: WriteSettings) -> list[Column] | None:
    """Return the sort columns for `hoodie.bulkinsert.user.defined.partitioner.class`; None if this option is not set.

    Raises:
        OptionError: the class is not known, or no sort columns are set.
        SchemaError: the rows do not have a sort column.
    """
    name = settings.options[o.BULK_INSERT_PARTITIONER_CLASS]
    if not name:
        return None
    if name.rpartition(".")[2] not in _COLUMN_SORT_CLASSES:
        raise OptionError(
            f"{o.BULK_INSERT_PARTITIONER_CLASS.key}={name!r} is a class of the JVM; known are {', '.join(_COLUMN_SORT_CLASSES)}"
        )
    fields = split_fields(settings.options[o.BULK_INSERT_PARTITIONER_SORT_COLUMNS])
    if not fields:
        raise OptionError(f"{name} needs {o.BULK_INSERT_PARTITIONER_SORT_COLUMNS.key}: the columns to sort by")
    missing = [field for field in fields if field not in prepared.rows.columns]
    if missing:
        raise SchemaError(
            f"{o.BULK_INSERT_PARTITIONER_SORT_COLUMNS.key} names {missing[0]!r}, which is not among the columns "
            f"{', '.join(prepared.crossing.schema.names)}"
        )
    return [F.col(quoted(field)) for field in fields]


def _sort_globally(rows: DataFrame, by: list[Column], parallelism: int | None) -> DataFrame:
    """Sort the rows over all Spark partitions by the columns `by`. Without columns, return the rows unchanged.

    Args:
        parallelism: the number of Spark partitions of the result; None: Spark decides.
    """
    if not by:
        return rows
    if parallelism:
        return rows.repartitionByRange(parallelism, *by).sortWithinPartitions(*by)
    return rows.sort(*by)


def _path_column(crossing: CrossingColumns) -> list[Column]:
    """Return a list with the column that holds the partition path; an empty list for a table without partitions."""
    return [F.col(quoted(crossing.path))] if crossing.path else []


def _key_column(crossing: CrossingColumns) -> list[Column]:
    """Return a list with the column that holds the record key; an empty list if the table generates record keys."""
    return [F.col(quoted(crossing.key))] if crossing.key else []

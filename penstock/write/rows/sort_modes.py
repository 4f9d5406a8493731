"""bulk_insert's sort modes: where rows go before they are written, as Spark's own shuffles and sorts."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock import options as o
from penstock.errors import OptionError, SchemaError
from penstock.write.rows.crossing import CrossingColumns
from penstock.write.rows.schema import Prepared, quoted
from penstock.write.settings import WriteSettings, split_fields

_COLUMN_SORT = ("RowCustomColumnsSortPartitioner", "RDDCustomColumnsSortPartitioner")


def arrange(prepared: Prepared, settings: WriteSettings) -> tuple[Prepared, bool]:
    """The rows in the order the sort mode asks for, and whether each task gets a partition's rows in one run."""
    mode = settings.options[o.BULK_INSERT_SORT_MODE].upper()
    if mode == "NONE" and not settings.options[o.BULK_INSERT_PARTITIONER_CLASS]:
        return prepared, False
    rows, in_runs = _arranged(prepared, settings, mode)
    return prepared.changed(rows), in_runs


def _arranged(prepared: Prepared, settings: WriteSettings, mode: str) -> tuple[DataFrame, bool]:
    options, rows = settings.options, prepared.rows
    parallelism = options[o.BULK_INSERT_SHUFFLE_PARALLELISM] or None
    by = _sort_columns(prepared, settings)
    if by is not None:
        return _global_sort(rows, [*_path(prepared.layout), *by], parallelism), True
    path, key = _path(prepared.layout), _key(prepared.layout)
    if mode == "GLOBAL_SORT":
        return _global_sort(rows, [*path, *key], parallelism), True
    if mode == "PARTITION_SORT":
        rows = rows.coalesce(parallelism) if parallelism else rows
        return rows.sortWithinPartitions(*path, *key), True
    if path:
        rows = rows.repartition(parallelism, *path) if parallelism else rows.repartition(*path)
    elif parallelism:
        rows = rows.coalesce(parallelism)
    sort = mode.endswith("_AND_SORT") and path
    return (rows.sortWithinPartitions(*path), True) if sort else (rows, False)


def _sort_columns(prepared: Prepared, settings: WriteSettings) -> list[Column] | None:
    """The columns of a user's column-sorting partitioner, if one is asked for."""
    name = settings.options[o.BULK_INSERT_PARTITIONER_CLASS]
    if not name:
        return None
    if name.rpartition(".")[2] not in _COLUMN_SORT:
        raise OptionError(
            f"{o.BULK_INSERT_PARTITIONER_CLASS.key}={name!r} is a class of the JVM; known here: {', '.join(_COLUMN_SORT)}"
        )
    fields = split_fields(settings.options[o.BULK_INSERT_PARTITIONER_SORT_COLUMNS])
    if not fields:
        raise OptionError(f"{name} needs {o.BULK_INSERT_PARTITIONER_SORT_COLUMNS.key}: the columns to sort by")
    missing = [f for f in fields if f not in prepared.rows.columns]
    if missing:
        raise SchemaError(
            f"{o.BULK_INSERT_PARTITIONER_SORT_COLUMNS.key} names {missing[0]!r}, which is not among the columns "
            f"{', '.join(prepared.layout.schema.names)}"
        )
    return [F.col(quoted(f)) for f in fields]


def _global_sort(rows: DataFrame, by: list[Column], parallelism: int | None) -> DataFrame:
    if not by:
        return rows
    if parallelism:
        return rows.repartitionByRange(parallelism, *by).sortWithinPartitions(*by)
    return rows.sort(*by)


def _path(layout: CrossingColumns) -> list[Column]:
    return [F.col(quoted(layout.path))] if layout.path else []


def _key(layout: CrossingColumns) -> list[Column]:
    return [F.col(quoted(layout.key))] if layout.key else []

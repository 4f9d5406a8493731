"""Clustering after a write: decides whether the options ask for it, and checks before the write that it can run."""

from __future__ import annotations

from penstock import options as o
from penstock.services.clustering.resize_buckets import rings_to_resize
from penstock.services.clustering.row_order import check_ordering, read_ordering, sortable_columns
from penstock.table.state import TableState


def check_inline(table: TableState, avro: str) -> None:
    """Raise an error if the options ask for a clustering after each write, and that clustering could not run.

    Called before the write begins.

    Args:
        table: the table, with the options of the write.
        avro: the Avro schema of the rows to write, as JSON.

    Raises:
        SchemaError: rows cannot be sorted by the columns that the options name.
        Unsupported: the table has a fixed number of buckets.
        OptionError: the options name a strategy that does not fit the table's index, or do not name that index.
    """
    if not clusters_after_write(table):
        return
    rings_to_resize(table)
    ordering = read_ordering(table.options)
    if ordering is not None:
        check_ordering(ordering, sortable_columns(avro))


def clusters_after_write(table: TableState) -> bool:
    """Whether to run or plan a clustering after each write.

    True if `hoodie.clustering.inline` or `hoodie.clustering.schedule.inline` is true, and table services are enabled. With
    `hoodie.clustering.async.enabled` alone, another process plans and runs clusterings.
    """
    options = table.options
    return options[o.TABLE_SERVICES_ENABLED] and (options[o.CLUSTERING_INLINE] or options[o.CLUSTERING_SCHEDULE_INLINE])

"""The operations by the names that options give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.hooks import PublishedCommit
from penstock.options.operation import Operation
from penstock.write.context import WriteContext
from penstock.write.operations import bulk_insert, delete, insert, upsert
from penstock.write.replace import delete_partition, insert_overwrite, insert_overwrite_table

OPERATIONS: Mapping[Operation, Callable[[WriteContext], PublishedCommit]] = {
    Operation.BULK_INSERT: bulk_insert,
    Operation.INSERT: insert,
    Operation.UPSERT: upsert,
    Operation.DELETE: delete,
    Operation.INSERT_OVERWRITE: insert_overwrite,
    Operation.INSERT_OVERWRITE_TABLE: insert_overwrite_table,
    Operation.DELETE_PARTITION: delete_partition,
}

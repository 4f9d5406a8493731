"""The operations by the names that options give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.hooks import PublishedCommit
from penstock.write.context import Write
from penstock.write.operations import bulk_insert, delete, insert, upsert
from penstock.write.replace import delete_partition, insert_overwrite, insert_overwrite_table

OPERATIONS: Mapping[str, Callable[[Write], PublishedCommit]] = {
    "bulk_insert": bulk_insert,
    "insert": insert,
    "upsert": upsert,
    "delete": delete,
    "insert_overwrite": insert_overwrite,
    "insert_overwrite_table": insert_overwrite_table,
    "delete_partition": delete_partition,
}

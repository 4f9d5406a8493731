"""The operations: what a write or a table service does to the rows of a table."""

from __future__ import annotations

from enum import Enum


class Operation(str, Enum):
    """An operation of Hudi 0.14 or 0.15. The value is its spelling in options and reports; `stored` its spelling in commit files.

    Penstock runs some of the operations. The others occur in commit files that Hudi writes.
    """

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"
    #: The `_prepped` operations expect incoming rows that already name their file group.
    UPSERT_PREPPED = "upsert_prepped"
    INSERT_PREPPED = "insert_prepped"
    BULK_INSERT_PREPPED = "bulk_insert_prepped"
    DELETE_PREPPED = "delete_prepped"
    BOOTSTRAP = "bootstrap"
    CLUSTER = "cluster"
    COMPACT = "compact"
    LOG_COMPACT = "log_compact"
    INDEX = "index"
    ALTER_SCHEMA = "alter_schema"
    UNKNOWN = "unknown"

    @property
    def stored(self) -> str:
        """The operation as the field `operationType` of commit files and plans spells it: in upper case."""
        return self.value.upper()

    def __str__(self) -> str:
        return self.value


def spellings(*operations: Operation) -> tuple[str, ...]:
    """Return the name of each operation as options spell it."""
    return tuple(operation.value for operation in operations)

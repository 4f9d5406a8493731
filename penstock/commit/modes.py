"""The concurrency mode and the policy for failed writes, as the options set them."""

from __future__ import annotations

from penstock import options as o
from penstock.table.state import TableState

#: The value of `hoodie.write.concurrency.mode` for several writers.
MULTI_WRITER = "OPTIMISTIC_CONCURRENCY_CONTROL"


def is_optimistic(table: TableState) -> bool:
    """Whether several writers may work at the same time, and check for conflicts when they commit.

    True if `hoodie.write.concurrency.mode` is `optimistic_concurrency_control`.
    """
    return table.options[o.CONCURRENCY_MODE].upper() == MULTI_WRITER


def failed_writes_policy(table: TableState) -> str:
    """Return the policy for failed writes: EAGER, LAZY or NEVER. With several writers it is LAZY, as in Hudi."""
    return "LAZY" if is_optimistic(table) else table.options[o.FAILED_WRITES_POLICY].upper()


def is_lazy(table: TableState) -> bool:
    """Whether the policy for failed writes is lazy: a pending write is rolled back only when its heartbeat has expired."""
    return failed_writes_policy(table) == "LAZY"

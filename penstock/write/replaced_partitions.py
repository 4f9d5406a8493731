"""Finds the partitions whose file groups an insert_overwrite or a delete_partition replaces."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from penstock import options as o
from penstock.errors import OptionError
from penstock.index import load_buckets
from penstock.table.listing import list_partitions
from penstock.table.state import TableState

if TYPE_CHECKING:
    from penstock.write.context import WriteContext


def partitions_to_overwrite(write: WriteContext, written: Collection[str]) -> list[str]:
    """Return the partition paths whose rows an insert_overwrite replaces.

    These are the partitions in `hoodie.static.overwrite.partition.paths` if set, otherwise the partitions of the incoming rows.

    Args:
        written: the partition paths of the incoming rows.

    Raises:
        OptionError: the option is set, and an incoming row is of a partition that it does not name.
    """
    named = write.options[o.STATIC_OVERWRITE_PARTITIONS]
    unnamed = sorted(set(written) - set(named)) if named else []
    if unnamed:
        raise OptionError(
            f"{o.STATIC_OVERWRITE_PARTITIONS.key}={','.join(named)} does not name partition {unnamed[0]!r}, which rows are for; "
            "add it, or leave the option out to overwrite the partitions of the rows"
        )
    return sorted(named or written)


def partitions_to_delete(write: WriteContext, table: TableState) -> list[str]:
    """Return the partition paths that a delete_partition takes out of the table.

    If `hoodie.datasource.write.partitions.to.delete` is set, its names are returned. A name with `*`, which stands for any
    characters, is replaced by the partitions of the table that match it. A name without `*` is returned even if the table does
    not have the partition.

    If the option is not set, the partitions of the incoming rows are returned. Spark then evaluates the rows.
    """
    named = write.options[o.PARTITIONS_TO_DELETE]
    if not named:
        return sorted(row[0] for row in write.prepared.rows.collect())
    paths = {name for name in named if not _is_pattern(name)}
    patterns = [_compile_pattern(name) for name in named if _is_pattern(name)]
    if patterns:
        for path in list_partitions(table):
            if any(pattern.fullmatch(path) for pattern in patterns):
                paths.add(path)
    return sorted(paths)


def _is_pattern(name: str) -> bool:
    """Whether a partition name in the options contains `*`, plain or URL-encoded."""
    return "*" in name or "%2A" in name  # the second is an escaped *


def _compile_pattern(name: str) -> re.Pattern[str]:
    """Return the regular expression for a partition name in which `*` stands for any characters."""
    parts = name.replace("%2A", "*").split("*")
    return re.compile(".*".join(map(re.escape, parts)))


def renew_buckets(table: TableState, time: str, partitions: Sequence[str]) -> None:
    """Write new hash rings, with new file ids, for partitions that a delete_partition takes out of the table.

    A hash ring is the file that maps hashes of record keys to file groups, for a bucket index with consistent hashing. With the
    old ring, rows of a later write would go to the replaced file groups, which readers ignore. For other tables nothing is done.

    Args:
        time: the instant time of the delete_partition.
    """
    buckets = load_buckets(table)
    if buckets is not None:
        buckets.renew_partitions(table, time, partitions)

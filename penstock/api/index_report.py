"""`IndexReport`: how many files and keys the index read in recent writes, from the extra metadata of their commits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from penstock.api.report import Column, Report, number
from penstock.index.previous_index import INDEX_FIGURES
from penstock.report_table import HtmlFields
from penstock.table.state import TableState
from penstock.timeline.store import read_metadata


@dataclass(frozen=True)
class IndexUse(HtmlFields):
    """How many files and keys the index read in one write.

    Example:
        >>> _ = table.upsert(trips)
        >>> use = table.index_report()[0]
        >>> use.index, use.operation, use.read_once
        ('SIMPLE', 'upsert', 2)
    """

    instant: str
    operation: str
    index: str
    #: Incoming rows whose keys were located before the merge.
    rows: int = 0
    #: Base files that could hold these keys.
    files: int = 0
    #: Base files whose keys were read, because their footers did not exclude the keys.
    opened: int = 0
    #: Base files that held some of the keys.
    holding: int = 0
    #: Incoming keys that were compared with the keys of a file, counted once per file.
    compared: int = 0
    #: Partitions with at most one file group. One task locates keys and merges in one read, so these are not counted above.
    read_once: int = 0
    #: Why `penstock.index=auto` chose this index.
    why: str = ""

    @property
    def false_positive_rate(self) -> float | None:
        """Of the base files that held no incoming key, the share that was opened; None if every base file held an incoming key.

        They were opened because the key range and bloom filter in their footers did not exclude the incoming keys.
        """
        without = self.files - self.holding
        return (self.opened - self.holding) / without if without else None


class IndexReport(Report[IndexUse]):
    """How many files and keys the index read in recent writes, newest first. `Table.index_report` returns it.

    Example:
        >>> _ = table.upsert(trips)
        >>> table.index_report().to_arrow().column_names[:3]
        ['instant', 'operation', 'index']
    """

    title = "Index"
    columns = (
        Column("instant", lambda u: str(u.instant)),
        Column("operation", lambda u: str(u.operation)),
        Column("index", lambda u: str(u.index)),
        Column("rows", number("rows"), right=True),
        Column("files", number("files"), right=True),
        Column("opened", number("opened"), right=True),
        Column("holding", number("holding"), right=True),
        Column("compared", number("compared"), right=True),
        Column("read once", number("read_once"), right=True),
        Column("false positives", lambda u: "" if u.false_positive_rate is None else f"{u.false_positive_rate:.1%}", right=True),
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("operation", pa.string()),
            ("index", pa.string()),
            ("rows", pa.int64()),
            ("files", pa.int64()),
            ("opened", pa.int64()),
            ("holding", pa.int64()),
            ("compared", pa.int64()),
            ("read_once", pa.int64()),
            ("why", pa.string()),
            ("false_positive_rate", pa.float64()),
        ]
    )


def index_report(table: TableState, limit: int) -> IndexReport:
    """Return how many files and keys the index read in the latest writes, newest first.

    Writes whose commits hold no index counts are left out.

    Args:
        limit: the most writes to return.
    """
    return IndexReport(list(islice(_uses(table), limit)), table.config.name)


def _uses(table: TableState) -> Iterator[IndexUse]:
    """Yield the index counts of each write on the active timeline, newest first. Writes that located no keys are left out."""
    for instant in reversed(table.timeline.writes):
        metadata = read_metadata(table.storage, table.base_path, instant)
        figures = json.loads(metadata.extra.get(INDEX_FIGURES, "{}"))
        if "rows" in figures:  # a write that located no keys has none
            yield IndexUse(
                instant=instant.time,
                operation=metadata.operation.lower(),
                index=figures["index"],
                rows=figures.get("rows", 0),
                files=figures.get("files", 0),
                opened=figures.get("opened", 0),
                holding=figures.get("holding", 0),
                compared=figures.get("candidates", 0),
                read_once=figures.get("read_once", 0),
                why=figures.get("why", ""),
            )

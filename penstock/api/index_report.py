"""What the index did in recent writes, from what their commits keep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from penstock.api.reports import IndexReport, IndexUse
from penstock.table import TableState
from penstock.timeline.store import read_metadata
from penstock.write.upsert import INDEX_FIGURES


def index_report(table: TableState, limit: int) -> IndexReport:
    """The newest writes that say what their index did, so many at most."""
    return IndexReport(list(islice(_uses(table), limit)), table.config.name)


def _uses(table: TableState) -> Iterator[IndexUse]:
    for instant in reversed(table.timeline.writes):
        metadata = read_metadata(table.storage, table.base_path, instant)
        said = json.loads(metadata.extra.get(INDEX_FIGURES, "{}"))
        if "rows" in said:  # others looked for no keys
            yield IndexUse(
                instant=instant.time,
                operation=metadata.operation.lower(),
                index=said["index"],
                rows=said.get("rows", 0),
                files=said.get("files", 0),
                opened=said.get("opened", 0),
                holding=said.get("holding", 0),
                compared=said.get("candidates", 0),
                read_once=said.get("read_once", 0),
                why=said.get("why", ""),
            )

"""One history for every index, on both kinds of table: every index must leave the same rows.

The history has updates, late rows, moves between partitions, deletes by operation and by flag, keys that come back, duplicates in
a batch and several partitions; small batches, which the driver writes, and batches that Spark tasks write. At the end all
indexes of one partition have left one set of rows, and all global indexes another.

A new index joins by a line in `INDEXES`. An index that needs a server, such as HBASE, joins where that server runs
(`tests/services/test_hbase.py`); one that keeps entries in SQLite joins in `tests/table/test_entry_index.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.kit.model import Model, Row
from tests.table.tables import snapshot, write
from tests.table.upserts import DEFAULT_PAYLOAD, DELETE, IN_TASKS, INDEX, MANY_GROUPS, ON_DRIVER, PAYLOAD, UPSERT, rows

TYPE = "hoodie.datasource.write.table.type"


@dataclass(frozen=True)
class Kind:
    """An index under test."""

    name: str
    is_global: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    #: The kinds of table that it works on.
    tables: tuple[str, ...] = ("COPY_ON_WRITE", "MERGE_ON_READ")


FEW_BUCKETS = {"hoodie.bucket.index.num.buckets": 3}
INDEXES = (
    Kind("SIMPLE"),
    Kind("BLOOM"),
    Kind("GLOBAL_SIMPLE", is_global=True),
    Kind("GLOBAL_BLOOM", is_global=True),
    Kind("INMEMORY"),
    Kind("BUCKET", options=FEW_BUCKETS),
    Kind("BUCKET", options={**FEW_BUCKETS, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, tables=("MERGE_ON_READ",)),
)
RUNS = [(kind, table) for kind in INDEXES for table in kind.tables]

FIRST: list[Row] = [(f"k{n}", city, 10, float(n), False) for n, city in enumerate(["x"] * 7 + ["y"] * 4 + ["z"])]
HISTORY: list[tuple[str, dict[str, Any], list[Row]]] = [
    ("upsert", IN_TASKS, FIRST),
    (
        "upsert",
        ON_DRIVER,
        [
            ("k0", "x", 20, 2.0, False),
            ("k1", "x", 5, 2.5, False),  # late
            ("k7", "x", 30, 3.0, False),  # of y
            ("k8", "z", 30, 3.5, False),  # of y
            ("n", "new", 1, 4.0, False),
            ("n", "new", 2, 4.5, False),
            ("m:1,2", "x", 1, 5.0, False),
            ("k2", "x", 20, 0.0, True),
            ("u", "y", 1, 0.0, True),  # in no partition
        ],
    ),
    ("delete", ON_DRIVER, [("k3", "x", 0, 0.0, False), ("k9", "y", 0, 0.0, False), ("q", "x", 0, 0.0, False)]),
    (
        "upsert",
        IN_TASKS,
        [
            ("k3", "x", 40, 6.0, False),  # comes back
            ("k2", "x", 50, 6.5, False),
            ("n", "y", 3, 7.0, False),
            ("m:1,2", "x", 2, 7.5, False),
            ("k11", "z", 10, 8.0, False),
            ("k11", "z", 11, 8.5, False),
            *((f"more{n}", "y", 1, float(n), False) for n in range(9)),
        ],
    ),
    ("delete", IN_TASKS, [("more1", "y", 0, 0.0, False), ("k0", "x", 0, 0.0, False), ("n", "y", 0, 0.0, False)]),
]


@pytest.mark.parametrize(("kind", "table"), RUNS, ids=[f"{kind.name}-{table}" for kind, table in RUNS])
def test_a_history_leaves_the_same_rows_as_a_dictionary(spark: Any, table_path: str, kind: Kind, table: str) -> None:
    check_history(spark, table_path, kind, table)


def check_history(spark: Any, table_path: str, kind: Kind, table: str) -> None:
    """Write the history to a table of this kind, with this index, and to a dictionary. Check that both hold the same rows."""
    model = Model(kind.is_global, kind.is_global, by_ordering=True)
    options = {INDEX: kind.name, PAYLOAD: DEFAULT_PAYLOAD, TYPE: table, **MANY_GROUPS}
    for operation, where, batch in HISTORY:
        said = UPSERT if operation == "upsert" else DELETE
        write(rows(spark, *batch), table_path, {**options, **kind.options, **said, **where})
        getattr(model, operation)(batch)
    expected = sorted((key, path, ts, fare) for path, key, ts, fare, _ in model.sorted_rows())
    assert sorted(row[:4] for row in snapshot(spark, table_path)) == expected

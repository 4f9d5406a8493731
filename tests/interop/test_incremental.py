"""Incremental queries of Penstock and of real Hudi 0.15 over one table that both write return the same rows and meta columns.

Ordering values only increase: a change that loses against an older row is returned by Hudi for merge-on-read tables, and not
by Penstock.
"""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.table.state import open_table
from tests.interop.sides import OPERATION, TRIPS, Penstock, Row, trips, trips_of
from tests.kit.oracle import Oracle
from tests.kit.readers import normalise

pytestmark = pytest.mark.oracle

OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.compact.inline": "false"}
#: Few instants stay on the timeline, and all files.
ARCHIVE = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "20",
}
WRITES: list[tuple[str, str, list[Row]]] = [
    ("us", "insert", [("a", "berlin", 1, 1.5), ("b", "berlin", 1, 2.5), ("c", "paris", 1, 3.5)]),
    ("hudi", "upsert", [("a", "berlin", 2, 1.0), ("d", "tokyo", 2, 4.5)]),
    ("us", "upsert", [("a", "berlin", 3, 0.5), ("c", "paris", 3, 3.0)]),
    ("hudi", "delete", [("b", "berlin", 4, 2.5)]),
    ("us", "insert_overwrite", [("e", "paris", 5, 5.5)]),
    ("hudi", "insert_overwrite", [("f", "tokyo", 6, 6.5)]),
    ("us", "cluster", []),
    ("hudi", "upsert", [("a", "berlin", 8, 8.5)]),
]
RANGES = [(None, 0), (0, 2), (1, 3), (0, None), (3, 4), (4, None), (None, None)]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_penstock_and_hudi_find_the_same_changes(
    kind: str, spark: Any, hudi015: Oracle, table_path: str, tmp_path_factory: Any
) -> None:
    us = Penstock(spark, tmp_path_factory.mktemp("rows"))
    options = {**TRIPS, **OFF, "hoodie.datasource.write.table.type": kind}
    for who, operation, rows in WRITES:
        if operation == "cluster":
            assert penstock.Table.open(table_path, spark).cluster(options=OFF)
        else:
            side = us if who == "us" else hudi015
            side.write(table_path, trips(*rows), {**options, OPERATION: operation})
    times = [i.time for i in open_table(table_path).timeline.writes]
    answers = []
    for begin, end in RANGES:
        until = {} if end is None else {"hoodie.datasource.read.end.instanttime": times[end]}
        since = {"hoodie.datasource.read.begin.instanttime": "000" if begin is None else times[begin]}
        query = {"hoodie.datasource.query.type": "incremental", **since, **until}
        ours = spark.read.format("hudi").options(**query).load(table_path).toArrow()
        theirs = hudi015.read(table_path, query)
        assert normalise(ours, meta=True).to_pylist() == normalise(theirs, meta=True).to_pylist(), (begin, end)
        answers.append((query, trips_of(ours)))
    assert [len(rows) for _, rows in answers] == [3, 3, 2, 3, 1, 2, 3]

    table = penstock.Table.open(table_path, spark)
    if kind == "MERGE_ON_READ":
        table.compact()  # what is not compacted is not archived
    hudi015.write(table_path, trips(("z", "oslo", 9, 9.5)), {**options, **ARCHIVE, OPERATION: "upsert"})
    assert open_table(table_path).timeline.start > times[3], "Hudi has archived the first writes"
    for query, rows in answers:
        if "hoodie.datasource.read.end.instanttime" in query:
            assert trips_of(spark.read.format("hudi").options(**query).load(table_path).toArrow()) == rows, query

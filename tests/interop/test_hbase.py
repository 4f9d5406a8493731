"""The HBase index shared with real Hudi: each engine finds rows by the entries that the other wrote."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.kit.hbase import MOVES, HBase
from tests.kit.oracle import Oracle
from tests.table.tables import OPERATION, TRIPS, snapshot, trips, values, write

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
Row = tuple[str, str, int, float]


class Sides:
    """One table with one index, written by both engines."""

    def __init__(self, spark: Any, hudi: Oracle, hbase: HBase, path: str, kind: str) -> None:
        self.spark, self.hudi, self.hbase, self.path = spark, hudi, hbase, path
        self.index = f"both_{kind.lower()}"
        hbase.create(self.index)
        common = {
            **TRIPS,
            **MOVES,
            "hoodie.datasource.write.table.type": kind,
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
        }
        self.our_options = {**common, **hbase.our_options(self.index)}
        self.their_options = {**common, **hbase.options(self.index)}

    def theirs(self, operation: str, *rows: Row) -> None:
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
        self.hudi.write(self.path, pa.table(columns, schema=SCHEMA), {**self.their_options, OPERATION: operation})

    def ours(self, operation: str, *rows: Row) -> None:
        write(trips(self.spark, *rows), self.path, {**self.our_options, OPERATION: operation})

    def our_delete(self, *keys: tuple[str, str]) -> None:
        write(values(self.spark, "id string, city string", *keys), self.path, {**self.our_options, OPERATION: "delete"})

    def check(self, *expected: Row) -> None:
        """Check that both engines see these rows, and that the index has an entry with the place of each."""
        assert snapshot(self.spark, self.path) == sorted(expected)
        found = self.hudi.read(self.path)
        assert sorted(tuple(row.values()) for row in found.select(SCHEMA.names).to_pylist()) == sorted(expected)
        names = zip(found["_hoodie_record_key"].to_pylist(), found["_hoodie_file_name"].to_pylist(), strict=True)
        entries = self.hbase.entries(self.index)
        assert {key: entry["file_name"] for key, entry in entries.items()} == {key: name.split("_")[0] for key, name in names}
        assert {key: entry["partition_path"] for key, entry in entries.items()} == {row[0]: row[1] for row in expected}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_each_engine_finds_rows_by_the_entries_of_the_other(
    spark: Any, hudi015: Oracle, hbase: HBase, table_path: str, kind: str
) -> None:
    hudi015.let_reach_hbase()
    both = Sides(spark, hudi015, hbase, table_path, kind)
    both.theirs("upsert", ("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0))
    theirs = hbase.entries(both.index)["a"]
    assert set(theirs) == {"commit_ts", "file_name", "partition_path"}
    both.ours("upsert", ("a", "x", 2, 2.0), ("d", "y", 2, 2.0), ("c", "z", 2, 2.0))
    assert hbase.entries(both.index)["a"] == theirs
    both.check(("a", "x", 2, 2.0), ("b", "x", 1, 1.0), ("c", "z", 2, 2.0), ("d", "y", 2, 2.0))
    both.theirs("upsert", ("a", "x", 3, 3.0), ("d", "y", 3, 3.0), ("c", "x", 3, 3.0), ("e", "y", 3, 3.0))
    rows: list[Row] = [("a", "x", 3, 3.0), ("b", "x", 1, 1.0), ("c", "x", 3, 3.0), ("d", "y", 3, 3.0), ("e", "y", 3, 3.0)]
    both.check(*rows)
    both.our_delete(("b", "x"), ("e", "y"))
    both.theirs("upsert", ("e", "z", 1, 4.0))
    both.check(("a", "x", 3, 3.0), ("c", "x", 3, 3.0), ("d", "y", 3, 3.0), ("e", "z", 1, 4.0))

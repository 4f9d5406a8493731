"""An index that keeps entries in a key-value store: table and entries agree after writes, rollbacks, restores and clustering.

The store is a SQLite file (`tests/kit/sqlite_index.py`), so no server is needed; `tests/services/test_hbase.py` tries HBase.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import OptionError
from tests.contract.test_indexes import Kind, check_history
from tests.kit.sqlite_index import NAME, read_entries, sqlite_index_added
from tests.table.tables import OPERATION, SIX, TRIPS, Trip, snapshot, timeline, trips, values, write

TYPE = "hoodie.datasource.write.table.type"
KINDS = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
#: Everything runs in Spark tasks, however small.
IN_SPARK = {"penstock.small.batch.rows": "0"}


@pytest.fixture(autouse=True)
def added_index() -> Iterator[None]:
    with sqlite_index_added():
        yield


class Trips:
    """A table of trips, and the file of its entries."""

    def __init__(self, spark: Any, path: str, kind: str) -> None:
        self.spark = spark
        self.path = path
        self.file = f"{path}.entries"
        self.options = {**TRIPS, "hoodie.index.type": NAME, "hoodie.index.hbase.table": self.file, TYPE: kind}

    def write(self, operation: str, *rows: Trip, **more: str) -> None:
        write(trips(self.spark, *rows), self.path, {**self.options, OPERATION: operation, **more})

    def delete(self, *keys: tuple[str, str], **more: str) -> None:
        frame = values(self.spark, "id string, city string", *keys)
        write(frame, self.path, {**self.options, OPERATION: "delete", **more})

    @property
    def last(self) -> str:
        """The time of the newest instant."""
        return max(name.split(".")[0] for name in timeline(self.path))

    def table(self) -> penstock.Table:
        return penstock.Table.open(self.path, self.spark, options=self.options)

    def check(self) -> None:
        """Check that each row has an entry with its file group and partition, and that no other key has one."""
        rows = self.spark.read.format("hudi").load(self.path).collect()
        groups = {row["_hoodie_record_key"]: row["_hoodie_file_name"].split("_")[0] for row in rows}
        entries = read_entries(self.file)
        assert {key: entry.file_id for key, entry in entries.items()} == groups
        assert {key: entry.partition_path for key, entry in entries.items()} == {row["id"]: row["city"] for row in rows}


@KINDS
def test_a_history_leaves_the_same_rows_as_a_dictionary(spark: Any, table_path: str, kind: str) -> None:
    trips_table = Trips(spark, table_path, kind)
    options = {"hoodie.index.hbase.table": trips_table.file}
    check_history(spark, table_path, Kind(NAME, is_global=True, options=options), kind)


@KINDS
@pytest.mark.parametrize("where", [{}, IN_SPARK], ids=["driver", "spark"])
def test_entries_follow_inserts_moves_and_deletes(spark: Any, table_path: str, kind: str, where: dict[str, str]) -> None:
    table = Trips(spark, table_path, kind)
    table.write("insert", *SIX, **where)
    table.check()
    table.write("upsert", ("a", "berlin", 9, 9.0), ("g", "oslo", 9, 9.0), ("b", "paris", 9, 9.5), **where)
    table.check()
    table.delete(("b", "elsewhere"), ("e", "tokyo"), ("unknown", "tokyo"), **where)
    table.check()
    assert sorted(read_entries(table.file)) == ["a", "c", "d", "f", "g"]
    table.write("bulk_insert", ("x", "rome", 1, 1.0), ("y", "oslo", 1, 1.0), **where)
    table.check()


@KINDS
def test_a_rollback_and_a_restore_undo_entries(spark: Any, table_path: str, kind: str) -> None:
    table = Trips(spark, table_path, kind)
    table.write("insert", *SIX)
    first = table.last
    table.table().savepoint()
    table.write("upsert", ("a", "oslo", 9, 9.0), ("n", "oslo", 9, 9.0))
    table.delete(("c", "tokyo"))
    table.table().rollback(table.last)
    table.check()
    assert "c" in read_entries(table.file), "its row is back, and has an entry again"
    table.delete(("d", "paris"))
    table.table().restore(first)
    table.check()
    assert snapshot(spark, table_path) == sorted(SIX)


def test_clustering_puts_entries_for_its_new_file_groups(spark: Any, table_path: str) -> None:
    table = Trips(spark, table_path, "COPY_ON_WRITE")
    table.write("insert", *SIX)
    before = {entry.file_id for entry in read_entries(table.file).values()}
    table.table().cluster()
    table.check()
    assert before.isdisjoint({entry.file_id for entry in read_entries(table.file).values()})
    table.write("upsert", ("a", "berlin", 9, 9.0))
    assert len(snapshot(spark, table_path)) == len(SIX)


def test_a_store_without_the_entries_of_a_table_is_refused(spark: Any, table_path: str, tmp_path: Path) -> None:
    table = Trips(spark, table_path, "COPY_ON_WRITE")
    table.write("insert", *SIX)
    before = timeline(table_path)
    with pytest.raises(OptionError, match=r"=SQLITE finds no entry in SQLite's file .*empty, but .* has rows"):
        table.write("upsert", ("a", "berlin", 9, 9.0), **{"hoodie.index.hbase.table": str(tmp_path / "empty")})
    assert timeline(table_path) == before
    table.write("insert", ("n", "oslo", 1, 1.0), **{"hoodie.index.type": "SIMPLE"})
    with pytest.raises(OptionError, match=r"=SQLITE has no entries of rows that write \d+ of .* added or moved with .*=SIMPLE"):
        table.write("upsert", ("n", "oslo", 9, 9.0))

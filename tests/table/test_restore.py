"""Savepoints and restores of whole tables: rows, files and timeline are those of the savepoint's commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import CorruptFile, OptionError, WriteConflict
from penstock.formats.avro.container import read_container
from penstock.timeline.restore_file import RestorePlan, write_restore_plan
from tests.table.tables import snapshot, timeline, trips

COLUMNS = "id string, city string, ts long, fare double"
FIRST = (("a", "berlin", 1, 1.5), ("b", "berlin", 2, 2.5), ("c", "paris", 3, 3.5))
SECOND = (("a", "berlin", 9, 9.5), ("b", "berlin", 2, 2.5), ("c", "paris", 3, 3.5))
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False, "hoodie.compact.inline": False}


def make_table(spark: Any, path: str, kind: str = "COPY_ON_WRITE") -> penstock.Table:
    """Write a table with two commits."""
    table = penstock.Table.create(
        path, COLUMNS, name="trips", record_key="id", partition_by="city", ordering="ts", table_type=kind, options=QUIET
    )
    table.insert(trips(spark, *FIRST))
    table.upsert(trips(spark, SECOND[0]))
    return table


def data_files(path: str) -> set[str]:
    root = Path(path)
    found = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
    return {name for name in found if not name.startswith(".hoodie/") and "partition_metadata" not in name}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_restore_returns_to_the_rows_of_the_savepoint(spark: Any, table_path: str, kind: str) -> None:
    table = make_table(spark, table_path, kind)
    saved = table.savepoint(user="anna", comment="before")
    assert (saved.user, saved.comment, saved.instant) == ("anna", "before", table.history()[1].instant)  # newest is the savepoint
    files = data_files(table_path)
    assert saved.files == len(files) - (kind == "COPY_ON_WRITE")  # the first version of a's file is not needed
    before = timeline(table_path)
    table.upsert(trips(spark, ("a", "berlin", 10, 0.0), ("d", "tokyo", 1, 4.5)))
    if kind == "MERGE_ON_READ":
        assert len(table.compact()) == 1
        table.upsert(trips(spark, ("c", "paris", 10, 0.0)))
        assert table.schedule_compaction() is not None
        table.upsert(trips(spark, ("c", "paris", 11, 0.0)))
    table.delete(trips(spark, FIRST[1]))
    table.insert_overwrite(trips(spark, ("z", "paris", 1, 1.0)))
    table.clean({"hoodie.cleaner.commits.retained": 1})
    with pytest.raises(OptionError, match="Could not rollback a savepointed commit"):
        table.rollback(saved.instant)
    done = table.restore(saved)
    assert snapshot(spark, table_path) == sorted(SECOND)
    assert done.instants[0] > done.instants[-1] > saved.instant
    assert data_files(table_path) <= files
    assert not Path(table_path, "tokyo").exists()
    left = [name for name in timeline(table_path) if name not in before]
    assert {name.split(".")[1] for name in left} == ({"restore"} if kind == "MERGE_ON_READ" else {"clean", "restore"})
    record = read_container(Path(table_path, ".hoodie", f"{done.instant}.restore").read_bytes())
    assert list(record["hoodieRestoreMetadata"]) == list(done.instants) == record["instantsToRollback"]
    table.upsert(trips(spark, ("d", "tokyo", 1, 4.5)))
    assert snapshot(spark, table_path) == sorted([*SECOND, ("d", "tokyo", 1, 4.5)])
    assert len(table.restore(saved.instant).instants) == 1
    assert [one.instant for one in table.savepoints()] == [saved.instant]
    table.delete_savepoint(saved.instant)
    if kind == "COPY_ON_WRITE":
        with pytest.raises(OptionError, match="cannot be rolled back: clean .* took file .*, which held the rows before it"):
            table.rollback(saved.instant)
    else:
        table.rollback(saved.instant)
        assert snapshot(spark, table_path) == sorted(FIRST)


def test_a_restore_that_cannot_succeed_is_refused_before_anything_is_changed(spark: Any, table_path: str) -> None:
    table = make_table(spark, table_path)
    first, second = (entry.instant for entry in reversed(table.history()))
    with pytest.raises(OptionError, match="Could not savepoint non-existing commit 2020.*Choose one from"):
        table.savepoint("20200101000000000")
    with pytest.raises(OptionError, match=r"No savepoint for instantTime .* make one with savepoint\("):
        table.restore(first)
    with pytest.raises(OptionError, match="No savepoint for instantTime 2020.* savepoints are there of no commit"):
        table.restore("20200101000000000")
    with pytest.raises(OptionError, match="there is no savepoint of"):
        table.delete_savepoint(first)
    table.savepoint(first)
    with pytest.raises(OptionError, match="has a savepoint already"):
        table.savepoint(first)
    table.savepoint(second)
    with pytest.raises(OptionError, match=f"savepoint {second} .* is later than {first}"):
        table.restore(first)
    with pytest.raises(OptionError, match=r"hoodie\.archive\.beyond\.savepoint is enabled"):
        table.restore(second, {"hoodie.archive.beyond.savepoint": True})
    table.delete_savepoint(second)
    # a file that the savepoint holds is gone
    gone = next(p for p in Path(table_path, "berlin").glob(f"*_{first}.parquet"))
    content = gone.read_bytes()
    gone.unlink()
    with pytest.raises(CorruptFile, match=f"{gone.name}.* is missing"):
        table.restore(first)
    gone.write_bytes(content)
    # plans: one that is torn and was not begun goes; a restore to another commit is finished first; one begun needs its plan
    hoodie = Path(table_path, ".hoodie")
    (hoodie / "20990101000000000.restore.requested").write_bytes(b"Obj")
    with pytest.raises(WriteConflict, match="Found pending restore"):
        table.upsert(trips(spark, FIRST[0]))
    (hoodie / "20990101000000000.restore.requested").write_bytes(write_restore_plan(RestorePlan("20200101000000000")))
    with pytest.raises(WriteConflict, match=r"to 20200101000000000 is not finished"):
        table.restore(first)
    (hoodie / "20990101000000000.restore.requested").write_bytes(b"Obj")
    (hoodie / "20990101000000000.restore.inflight").write_bytes(b"")
    with pytest.raises(CorruptFile, match="has begun, but its plan cannot be read"):
        table.restore(first)
    (hoodie / "20990101000000000.restore.inflight").unlink()
    assert len(table.restore(first).instants) == 1
    assert snapshot(spark, table_path) == sorted(FIRST)
    # cleaned commits
    for number in range(3):
        table.upsert(trips(spark, ("a", "berlin", 20 + number, 0.5)))
    third = table.history()[1].instant
    table.delete_savepoint(first)
    assert table.clean({"hoodie.cleaner.fileversions.retained": 1}) is not None
    with pytest.raises(OptionError, match=f"Could not savepoint commit {third}: clean .* took file"):
        table.savepoint(third)
    for number in range(2):
        table.upsert(trips(spark, ("a", "berlin", 30 + number, 0.5)))
    assert table.clean({"hoodie.cleaner.commits.retained": 1}) is not None
    with pytest.raises(OptionError, match="beyond the lookup window"):
        table.savepoint(third)
    assert table.savepoint().files == 2

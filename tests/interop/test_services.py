"""Cleaning and archiving across engines: each serves a table that the other wrote, and finishes what the other began."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.options import read_options
from penstock.services.clean.schedule import schedule_clean
from penstock.services.file_check import check_files
from penstock.table.state import open_table
from penstock.timeline.archive import entry_key, load_archive
from tests.kit.oracle import TABLE_VERSION_6, Oracle
from tests.kit.plain import plain_rows
from tests.table.tables import OPERATION, TRIPS, base_files, commits, timeline

pytestmark = pytest.mark.oracle

COLUMNS = ["id", "city", "ts", "fare"]
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.metadata.enable": "false"}
KEEP = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.metadata.enable": "false",
}
Row = tuple[Any, ...]


def trips(number: int) -> tuple[Row, ...]:
    return (("a", "berlin", number, 1.5 * number), ("b", "paris", number, 2.5 * number))


def rows(*trips: Row) -> pa.Table:
    return pa.table({name: list(values) for name, values in zip(COLUMNS, zip(*trips, strict=True), strict=True)})


class Sides:
    """Both engines, by name."""

    def __init__(self, hudi: Oracle, spark: Any) -> None:
        self.hudi, self.spark = hudi, spark

    def write(self, who: str, path: str, number: int, options: dict[str, str]) -> None:
        given = {**TRIPS, OPERATION: "upsert", **options}
        if who == "hudi":
            self.hudi.write(path, rows(*trips(number)), given)
        else:
            self.spark.createDataFrame(rows(*trips(number))).write.format("hudi").options(**given).mode("append").save(path)

    def check(self, path: str, number: int) -> None:
        found = self.hudi.read(path, {}).select(COLUMNS)
        assert sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) == list(trips(number))
        assert plain_rows(path) == list(trips(number))
        assert check_files(open_table(path)) == []

    def archived(self, path: str) -> list[str]:
        """Return the commits that Hudi finds in the archive."""
        within = "start_ts => '20000101000000000', end_ts => '20990101000000000', limit => 99"
        return [
            row["commit_time"] for row in self.hudi.sql(f"CALL show_archived_commits(table => '{self.named(path)}', {within})")
        ]

    def named(self, path: str) -> str:
        name = f"t_{abs(hash(path))}"
        self.hudi.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{path}'")
        return name


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [("penstock", "hudi", "COPY_ON_WRITE"), ("hudi", "penstock", "COPY_ON_WRITE"), ("penstock", "hudi", "MERGE_ON_READ")],
)
def test_each_engine_cleans_and_archives_what_the_other_wrote(
    first: str, second: str, kind: str, hudi015: Oracle, spark: Any, table_path: str
) -> None:
    sides, made = Sides(hudi015, spark), {"hoodie.datasource.write.table.type": kind}
    if kind == "MERGE_ON_READ":
        made |= {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    for number in range(1, 5):
        sides.write(first, table_path, number, OFF | made)
    for number in range(5, 8):
        sides.write(second, table_path, number, KEEP | made)
        sides.check(table_path, number)
    gone = [
        entry_key(e)[0]
        for e in load_archive(*located(table_path))
        if e["actionState"] == "COMPLETED" and e["actionType"] != "clean"
    ]
    assert gone
    assert set(sides.archived(table_path)) >= {
        entry_key(e)[0] for e in load_archive(*located(table_path)) if entry_key(e)[1] == "commit"
    }
    before = len(gone)
    for number in range(8, 11):
        sides.write(first, table_path, number, KEEP | made)
    sides.check(table_path, 10)
    both = [entry_key(e) for e in load_archive(*located(table_path))]
    assert len([key for key in both if key[2] == "COMPLETED"]) > before
    assert len(both) == len(set(both))
    active = [i.time for i in open_table(table_path).timeline.instants]
    assert sorted({i.time for i in hudi015.commits(table_path)}) == sorted(set(active))
    assert not set(active) & {key[0] for key in both}
    assert len(base_files(Path(table_path))) <= 8


def located(path: str) -> tuple[Any, str]:
    table = open_table(path)
    return table.storage, table.base_path


def test_each_engine_finishes_a_clean_that_the_other_began(hudi015: Oracle, spark: Any, table_path: str, tmp_path: Path) -> None:
    sides = Sides(hudi015, spark)
    for number in range(1, 5):
        sides.write("penstock", table_path, number, OFF)
    table = open_table(table_path, read_options({"hoodie.cleaner.commits.retained": "1"}))
    planned = schedule_clean(table, due=True)
    assert planned is not None
    sides.write("hudi", table_path, 5, KEEP)
    assert f"{planned.time}.clean" in timeline(Path(table_path))
    sides.check(table_path, 5)
    done = max(name for name in timeline(Path(table_path)) if name.endswith(".clean"))
    for end in ("", ".inflight"):  # as if Hudi had died after its plan, with the files deleted already
        Path(table_path, ".hoodie", done + end).unlink()
        Path(table_path, ".hoodie", f".{done}{end}.crc").unlink(missing_ok=True)
    found = penstock.Table.open(table_path, spark).clean({"hoodie.cleaner.commits.retained": 1})
    assert found is not None
    assert done in timeline(Path(table_path))
    sides.check(table_path, 5)


def test_files_of_a_savepoint_of_hudi_are_not_cleaned(hudi015: Oracle, spark: Any, table_path: str) -> None:
    sides = Sides(hudi015, spark)
    sides.write("penstock", table_path, 1, OFF)
    held = set(base_files(Path(table_path)))
    hudi015.sql(f"CALL create_savepoint(table => '{sides.named(table_path)}')")
    for number in range(2, 8):
        sides.write("penstock", table_path, number, KEEP)
    assert held <= set(base_files(Path(table_path)))
    assert load_archive(*located(table_path)) == []
    assert penstock.Table.open(table_path, spark).read(as_of=open_table(table_path).timeline.writes[-1].time).count() == 2
    sides.check(table_path, 7)


def test_both_engines_expire_the_same_partitions(hudi12: Oracle, spark: Any, tmp_path: Path) -> None:
    """By a table that Hudi wrote years ago. Hudi has lifetimes of partitions since 1.0."""
    ours, theirs = (old_table(tmp_path / name) for name in ("ours", "theirs"))
    before = penstock.Table.open(ours, spark).read().count()
    done = penstock.Table.open(ours, spark).expire_partitions(
        {"hoodie.partition.ttl.strategy.days.retain": 1, "hoodie.partition.ttl.strategy.partition.selected": "10,30"}
    )
    assert done is not None
    hudi12.sql(f"CREATE TABLE old_trips USING hudi LOCATION '{theirs}'")
    settings = ",".join(f"{key}={value}" for key, value in (TABLE_VERSION_6 | {"hoodie.metadata.enable": "false"}).items())
    hudi12.sql("SET hoodie.partition.ttl.strategy.partition.selected=10,30")
    hudi12.sql(f"CALL run_ttl(table => 'old_trips', retain_days => 1, options => '{settings}')")
    hudi12.sql("RESET hoodie.partition.ttl.strategy.partition.selected")
    replaced = [commits(path)[-1]["partitionToReplaceFileIds"] for path in (ours, theirs)]
    assert replaced[0] == replaced[1]
    assert set(replaced[0]) == {"10", "30"}
    counts = [penstock.Table.open(path, spark).read().count() for path in (ours, theirs)]
    assert counts[0] == counts[1] == hudi12.read(ours).num_rows < before
    assert [list(penstock.Table.open(path).check_files()) for path in (ours, theirs)] == [[], []]


def old_table(folder: Path) -> str:
    """Write a table of 2024, with partitions 10, 20 and 30."""
    file = Path(__file__).parents[1] / "data" / "tables" / "cow_v6_simplekeygen_nonhivestyle.zip"
    with zipfile.ZipFile(file) as packed:
        packed.extractall(folder, [name for name in packed.namelist() if not name.startswith("__")])
    return str(next(folder.rglob("hoodie.properties")).parents[1])

"""Reads: tables of real Hudi and of Penstock, paths, times, and the files that are opened."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import CorruptFile, OptionError, TableNotFound
from penstock.formats.avro.container import write_container
from penstock.options import read_options
from penstock.read.plan import plan_query
from penstock.read.query import parse_query
from penstock.read.scan import scan
from penstock.table.state import open_table
from penstock.timeline.commit_file import CommitMetadata, write_commit
from tests.kit.golden import unpack_golden
from tests.table.tables import (
    BULK,
    HIVE_STYLE,
    INSERT,
    META,
    OPERATION,
    PARTITION,
    SIX,
    base_files,
    load,
    snapshot,
    sorted_rows,
    spoil,
    timeline,
    trips,
    write,
)

READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}


# --- tables of real Hudi

COW = {
    "cow_v6_nonpartitioned": [(1, "Alice"), (2, "Bob"), (3, "Carol"), (4, "Diana")],
    "cow_v6_simplekeygen_nonhivestyle": [(1, "Alice"), (2, "Bob"), (3, "Carol"), (4, "Diana")],
    "cow_v6_complexkeygen_hivestyle": [(1, "Alice"), (2, "Bob"), (3, "Carol"), (4, "Diana")],
    "cow_v6_simplekeygen_hivestyle_no_metafields": [(1, "Alice"), (2, "Bob"), (3, "Carol"), (4, "Diana")],
}


@pytest.mark.parametrize("name", COW)
def test_a_copy_on_write_table_of_hudi_is_read(spark: Any, tmp_path: Path, name: str) -> None:
    frame = load(spark, str(unpack_golden(name, tmp_path)))
    assert frame.columns[:5] == list(META)
    assert sorted_rows(frame.select("id", "name")) == COW[name]
    assert sorted_rows(frame.where("byteField = 10").select("id").distinct()) == sorted_rows(
        frame.where("byteField + 0 = 10").select("id").distinct()
    )
    row = frame.where("id = 1").first()
    assert row["structField"]["child_struct"]["child_field2"] is not None
    assert row["arrayField"]
    assert row["mapField"]
    filled = [row[c] is not None for c in META]
    assert filled == ([True] * 5 if "no_metafields" not in name else filled)


def test_an_empty_table_of_hudi_has_columns_and_no_rows(spark: Any, tmp_path: Path) -> None:
    frame = load(spark, str(unpack_golden("cow_v6_empty", tmp_path)))
    assert frame.count() == 0
    assert frame.columns == [*META, "id", "name", "isActive"]


def test_the_rows_before_an_overwrite_can_still_be_read(spark: Any, tmp_path: Path) -> None:
    path = str(unpack_golden("mor_parquet_v6_simplekeygen_nonhivestyle_overwritetable", tmp_path))
    then = load(spark, path, **READ_OPTIMIZED, **{"as.of.instant": "20250121000656060"})
    assert sorted_rows(then.select("id")) == [(1,), (2,), (3,), (4,)]


# --- our own: one table for all that only reads


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six trips in three cities by three commits. The last one wrote to the files of berlin."""
    path = str(tmp_path_factory.mktemp("read") / "table")
    write(trips(spark, *SIX[:4]).coalesce(1), path)
    write(trips(spark, *SIX[4:]).coalesce(1), path)
    write(trips(spark, ("g", "berlin", 7, 7.5)), path, INSERT)
    return path


SEVEN = [*SIX, ("g", "berlin", 7, 7.5)]


def times(path: str) -> list[str]:
    return [n.split(".")[0] for n in timeline(path) if n.endswith(".commit")]


def test_a_read_is_an_ordinary_lazy_data_frame(spark: Any, table: str) -> None:
    frame = load(spark, table)
    assert frame.columns == [*META, "id", "city", "ts", "fare"]
    assert snapshot(spark, table) == SEVEN
    assert sorted_rows(frame.select("id").where("fare > 5")) == [("e",), ("f",), ("g",)]
    assert frame.where("city = 'paris' and ts = 4").select("id").first()["id"] == "d"
    joined = frame.alias("l").join(frame.alias("r"), "city").where("l.id < r.id").selectExpr("l.id", "r.id")
    assert sorted_rows(joined) == [("a", "b"), ("a", "g"), ("b", "g"), ("c", "d"), ("e", "f")]
    assert sorted_rows(frame.groupBy("city").count()) == [("berlin", 3), ("paris", 2), ("tokyo", 2)]


def test_a_frame_shows_the_table_as_it_was_when_loaded(spark: Any, table: str, table_path: str) -> None:
    copy = shutil.copytree(table, table_path)
    frame = load(spark, copy)
    write(trips(spark, ("z", "rome", 9, 9.5)), copy)
    assert frame.count() == 7
    assert load(spark, copy).count() == 8


def test_both_format_names_and_every_way_to_pass_the_path_work(spark: Any, table: str) -> None:
    for name in ("hudi", "org.apache.hudi", "HUDI"):
        assert spark.read.format(name).load(table).count() == 7
    assert spark.read.load(table, format="hudi").count() == 7
    assert spark.read.format("hudi").option("path", table).load().count() == 7
    assert spark.read.format("hudi").load(f"file://{table}/").count() == 7
    with pytest.raises(OptionError, match="must be specified"):
        spark.read.format("hudi").load()


@pytest.mark.parametrize(
    ("paths", "ids"),
    [
        (["berlin"], "abg"),
        (["berlin", "tokyo"], "abefg"),
        (["*"], "abcdefg"),
        (["?????"], "cdef"),
        (["{paris,tokyo}"], "cdef"),
        (["[bp]*"], "abcdg"),
        (["*/*.parquet"], "abcdefg"),
        (["", "berlin"], "abcdefg"),
    ],
)
def test_paths_below_the_table_read_a_part_of_it(spark: Any, table: str, paths: list[str], ids: str) -> None:
    full = [f"{table}/{p}".rstrip("/") for p in paths]
    assert "".join(sorted(r.id for r in load(spark, full).collect())) == ids
    if not any("," in p for p in paths):  # the option is a comma list
        found = load(spark, [], **{"hoodie.datasource.read.paths": ",".join(full)}).collect()
        assert "".join(sorted(r.id for r in found)) == ids


def test_one_file_of_a_partition_can_be_read(spark: Any, table: str) -> None:
    name = load(spark, table).where("id = 'c'").first()["_hoodie_file_name"]
    assert sorted(r.id for r in load(spark, f"{table}/paris/{name}").collect()) == ["c", "d"]


def test_paths_that_match_nothing_or_several_tables_are_refused(spark: Any, table: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no partition"):
        load(spark, f"{table}/nowhere")
    with pytest.raises(OptionError, match="no partition"):
        load(spark, f"{table}/x*")
    other = shutil.copytree(table, tmp_path / "other")
    with pytest.raises(OptionError, match="different tables"):
        load(spark, [table, str(other)])
    with pytest.raises(TableNotFound):
        load(spark, [table, str(tmp_path / "nothing")])


def test_a_table_in_a_folder_with_an_odd_name_is_written_and_read(spark: Any, tmp_path: Path) -> None:
    for name in ("a b", "50%", "%41", "[x]", "{y,z}", "q?", "s*", "東京", "a+b", "c=d", "#1"):
        path = str(tmp_path / name / "table")
        write(trips(spark, *SIX[:3]).coalesce(1), path)
        frame = load(spark, path)
        assert snapshot(spark, path) == [*SIX[:3]], name
        assert [r.id for r in frame.where("city = 'paris'").collect()] == ["c"], name


# --- times


def test_time_travel_reads_the_table_as_of_a_time(spark: Any, table: str) -> None:
    first, second, third = times(table)
    for time, ids in [(first, "abcd"), (second, "abcdef"), (third, "abcdefg"), ("2999-01-01", "abcdefg")]:
        assert "".join(sorted(r.id for r in load(spark, table, **{"as.of.instant": time}).collect())) == ids
    before = load(spark, table, **{"as.of.instant": "2001-01-01 00:00:00"})
    assert before.columns[5:] == ["id", "city", "ts", "fare"]
    assert before.count() == 0
    with pytest.raises(OptionError, match=r"as\.of\.instant"):
        load(spark, table, **{"as.of.instant": "yesterday"})


def test_a_time_after_an_incomplete_commit_or_before_the_last_clean_is_refused(spark: Any, table: str, table_path: str) -> None:
    path = shutil.copytree(table, table_path)
    first, second, third = times(path)
    Path(path, ".hoodie", "29990101000000000.commit.requested").touch()
    assert load(spark, path, **{"as.of.instant": "2998-01-01"}).count() == 7
    with pytest.raises(OptionError, match="first incomplete commit"):
        load(spark, path, **{"as.of.instant": "2999-01-02"})
    clean = {"startCleanTime": third, "timeTakenInMillis": 1, "totalFilesDeleted": 1, "partitionMetadata": {}}
    content = write_container("HoodieCleanMetadata", {**clean, "earliestCommitToRetain": second})
    Path(path, ".hoodie", f"{int(third) + 1}.clean").write_bytes(content)
    with pytest.raises(OptionError, match="Cleaner cleaned up"):
        load(spark, path, **{"as.of.instant": first})
    assert load(spark, path, **{"as.of.instant": second}).count() == 6


def test_instants_of_14_digits_are_read(spark: Any, table: str, table_path: str) -> None:
    """As an older Hudi would have written the same table."""
    path = shutil.copytree(table, table_path)
    short = {time: f"2020010100000{i}" for i, time in enumerate(times(path))}
    for file in sorted(Path(path).rglob("*"), reverse=True):
        name = file.name
        for long, time in short.items():
            name = name.replace(long, time)
        if file.suffix in (".commit", ".inflight") or file.name.endswith("metadata"):
            text = file.read_text()
            for long, time in short.items():
                text = text.replace(long, time)
            file.write_text(text)
        if name != file.name:
            file.rename(file.with_name(name))
    assert snapshot(spark, path) == SEVEN
    assert load(spark, path, **{"as.of.instant": "20200101000000"}).count() == 4
    write(trips(spark, ("z", "rome", 9, 9.5)), path)
    assert load(spark, path).count() == 8
    assert len(times(path)[-1]) == 17


# --- what is part of the table


def test_files_of_pending_and_replaced_writes_are_not_read(spark: Any, table: str, table_path: str) -> None:
    path = shutil.copytree(table, table_path)
    (file,) = Path(path, "paris").glob("*.parquet")
    first, _, third = times(path)
    pending = f"{int(third) + 5}"
    shutil.copy(file, file.with_name(file.name.replace(first, pending)))
    shutil.copy(file, file.with_name(f"0{file.name[1:]}".replace(first, pending)))
    for state in ("commit.requested", "inflight"):
        Path(path, ".hoodie", f"{pending}.{state}").touch()
    assert snapshot(spark, path) == SEVEN

    file_id = file.name.split("_")[0]
    replace = CommitMetadata(operation="DELETE_PARTITION", replaced={"paris": (file_id,)})
    Path(path, ".hoodie", f"{int(third) + 9}.replacecommit").write_bytes(write_commit(replace))
    assert snapshot(spark, path) == [r for r in SEVEN if r[1] != "paris"]
    assert load(spark, path, **{"as.of.instant": third}).count() == 7


def test_files_of_archived_commits_are_read(spark: Any, table: str, table_path: str) -> None:
    path = shutil.copytree(table, table_path)
    for name in timeline(path):
        if not name.startswith(times(path)[-1]):
            Path(path, ".hoodie", name).unlink()
    assert snapshot(spark, path) == SEVEN


def test_a_folder_that_is_no_partition_is_not_read(spark: Any, table: str, table_path: str) -> None:
    path = shutil.copytree(table, table_path)
    Path(path, "paris", ".hoodie_partition_metadata").unlink()
    shutil.copytree(Path(path, "berlin"), Path(path, ".hoodie", "metadata", "files"))
    assert sorted({r[1] for r in snapshot(spark, path)}) == ["berlin", "tokyo"]


# --- files that are not opened


@pytest.fixture(params=["plain", "hive", "two columns", "odd"])
def spoiled(request: pytest.FixtureRequest, spark: Any, table_path: str) -> Iterator[tuple[str, str]]:
    """A table in which only the files of one partition can be opened, and the city of that partition."""
    kept, others = ("são paulo", ["50%", "a+b"]) if request.param == "odd" else ("paris", ["berlin", "tokyo"])
    options = {**BULK}
    if request.param == "hive":
        options[HIVE_STYLE] = "true"
    if request.param == "two columns":
        options[PARTITION] = "city,ts"
    rows = [("a", kept, 1, 1.5), ("b", kept, 2, 2.5), *((c, c, 3, 3.5) for c in others)]
    write(trips(spark, *rows).coalesce(1), table_path, options)
    spoil(f for f in base_files(table_path) if kept not in str(f.relative_to(table_path)))
    yield table_path, kept


def test_a_filter_on_the_data_frame_opens_no_file_of_another_partition(spark: Any, spoiled: tuple[str, str]) -> None:
    path, city = spoiled
    frame = load(spark, path)
    frame.createOrReplaceTempView("penstock_trips")
    expected = [("a", 1.5), ("b", 2.5)]
    assert sorted_rows(frame.where(frame.city == city).select("id", "fare")) == expected
    assert sorted_rows(frame.select("id", "fare", "city").where(f"city in ('{city}', 'nowhere')").drop("city")) == expected
    assert sorted_rows(spark.sql(f"select id, fare from penstock_trips where city = '{city}' and fare > 0")) == expected
    assert sorted_rows(spark.sql(f"select id, fare from penstock_trips where upper(city) like upper('{city[:3]}%')")) == expected
    assert spark.sql("select id from penstock_trips where city = 'nowhere'").collect() == []
    by_city = spark.sql(
        f"with t as (select * from penstock_trips) select city, count(*) from t where city = '{city}' group by city"
    )
    assert [tuple(r) for r in by_city.collect()] == [(city, 2)]
    with pytest.raises(Exception, match=r"parquet|Parquet|FAILED_READ_FILE"):
        frame.count() if "two" in path else frame.select("fare").collect()


def test_a_path_opens_and_lists_no_other_partition(spark: Any, spoiled: tuple[str, str]) -> None:
    path, city = spoiled
    folder = next(p for p in Path(path).iterdir() if p.name.removeprefix("city=") == city)
    if "two" not in str(folder) and not any(p.is_dir() for p in folder.iterdir()):
        assert sorted(r.fare for r in load(spark, str(folder)).collect()) == [1.5, 2.5]
    assert sorted(r.fare for r in load(spark, f"{folder}*").collect()) == [1.5, 2.5]


def test_many_files_are_read_whatever_their_folders_are_called(spark: Any, table_path: str) -> None:
    cities = [f"c{n}" for n in range(40)] + ["a,b", "{x}", "50%", "são paulo", "a*", "c=1", "q?"]
    write(trips(spark, *((c, c, 1, 1.0) for c in cities)).coalesce(1), table_path, BULK)
    frame = load(spark, table_path)
    assert sorted_rows(frame.select("id", "city")) == sorted((c, c) for c in cities)
    assert [r.id for r in frame.where("city = 'c7' or city = 'a,b'").orderBy("id").collect()] == ["a,b", "c7"]


def test_a_file_that_is_removed_while_a_query_is_planned_is_an_error(spark: Any, table_path: str) -> None:
    write(trips(spark, *((f"c{n}", f"c{n}", 1, 1.0) for n in range(40))).coalesce(1), table_path, BULK)
    query = parse_query([table_path], read_options({}))
    planned = plan_query(query, open_table(table_path))
    gone = base_files(table_path)[11]
    gone.unlink()
    with pytest.raises(CorruptFile, match=f"{gone.name} was removed while a query"):
        scan(spark, planned)


def test_partition_values_can_be_read_from_the_files(spark: Any, table: str) -> None:
    stored = load(spark, table, **{"penstock.read.partition.values": "stored"})
    assert sorted_rows(stored.drop(*META)) == SEVEN
    assert [r.id for r in stored.where("city = 'tokyo' and ts = 5").collect()] == ["e"]


def test_writing_lists_no_other_partition(spark: Any, table: str, table_path: str) -> None:
    """A damaged partition elsewhere does not matter to an insert."""
    path = shutil.copytree(table, table_path)
    spoil(f for f in base_files(path) if "berlin" not in f.parts)
    write(trips(spark, ("h", "berlin", 8, 8.5)), path, {OPERATION: "insert"})
    assert sorted(r.id for r in load(spark, f"{path}/berlin").collect()) == ["a", "b", "g", "h"]

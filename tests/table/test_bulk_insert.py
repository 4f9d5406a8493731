"""bulk_insert: the content, order and size of its files."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import OptionError, SchemaError
from penstock.filegroup.names import parse_base_name
from penstock.formats.bloom import read_bloom
from tests.table.tables import (
    BULK,
    INSERT,
    KEY,
    META,
    NAME,
    OPERATION,
    SIX,
    base_files,
    commits,
    footer,
    load,
    snapshot,
    stats,
    timeline,
    trips,
    values,
    write,
)

SORT = "hoodie.bulkinsert.sort.mode"
PARALLELISM = "hoodie.bulkinsert.shuffle.parallelism"
PARTITIONER = "hoodie.bulkinsert.user.defined.partitioner.class"
COMBINE = "hoodie.combine.before.insert"


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("made") / "table")
    write(trips(spark, *SIX).repartition(2), path)
    return path


# --- what the files hold


def test_every_row_has_meta_columns_that_say_where_and_when_it_was_written(spark: Any, made: str) -> None:
    time = timeline(made)[0].split(".")[0]
    rows = load(spark, made).collect()
    names = {f.name for f in base_files(made)}
    for row in rows:
        assert row["_hoodie_commit_time"] == time
        assert row["_hoodie_record_key"] == row["id"]
        assert row["_hoodie_partition_path"] == row["city"]
        assert row["_hoodie_file_name"] in names
        instant, task, number = row["_hoodie_commit_seqno"].split("_")
        assert (instant, task.isdecimal(), number.isdecimal()) == (time, True, True)
    assert len({row["_hoodie_commit_seqno"] for row in rows}) == 6


def test_meta_columns_come_first_and_all_columns_are_optional(made: str) -> None:
    for file in base_files(made):
        schema = pq.read_metadata(file).schema
        columns = [schema.column(i) for i in range(len(schema))]
        assert [c.name for c in columns] == [*META, "id", "city", "ts", "fare"]
        assert {c.max_definition_level for c in columns} == {1}
        assert {c.converted_type for c in columns[:7]} == {"UTF8"}


def test_names_of_base_files_hold_instant_and_task(made: str) -> None:
    time = timeline(made)[0].split(".")[0]
    for file in base_files(made):
        name = parse_base_name(file.name)
        assert name is not None
        assert name.instant == time
        assert len(name.file_id) == 38
        assert name.file_id.endswith("-0")
        task = name.write_token.split("-")[0]
        assert {s.split("_")[1] for s in pq.read_table(file)["_hoodie_commit_seqno"].to_pylist()} == {task}


def test_the_footer_holds_key_range_filter_and_schema(made: str) -> None:
    for file in base_files(made):
        keys = pq.read_table(file)["_hoodie_record_key"].to_pylist()
        found = footer(file)
        assert (found["hoodie_min_record_key"], found["hoodie_max_record_key"]) == (min(keys), max(keys))
        assert found["hoodie_bloom_filter_type_code"] == "DYNAMIC_V0"
        bloom = read_bloom(found["org.apache.hudi.bloomfilter"], "DYNAMIC_V0")
        assert all(bloom.might_contain(pq.read_table(file)["_hoodie_record_key"]))
        assert '"name":"_hoodie_commit_time"' in found["parquet.avro.schema"]
        assert found["writer.model.name"] == "avro"
        assert "ARROW:schema" not in found


def test_files_have_no_bloom_filter_if_it_is_off_and_no_index_needs_it(spark: Any, table_path: str) -> None:
    plain = {"hoodie.parquet.bloom.filter.enabled": "false"}
    write(trips(spark, ("a", "x", 1, 1.0), ("b", "x", 1, 1.0)).coalesce(1), table_path, {**BULK, **plain})
    found = footer(base_files(table_path)[0])
    assert "org.apache.hudi.bloomfilter" not in found
    assert (found["hoodie_min_record_key"], found["hoodie_max_record_key"]) == ("a", "b")
    bloom = {**plain, "hoodie.index.type": "BLOOM", OPERATION: "upsert"}
    write(trips(spark, ("b", "x", 2, 2.0)), table_path, {**BULK, **bloom})
    assert snapshot(spark, table_path) == [("a", "x", 1, 1.0), ("b", "x", 2, 2.0)]
    newest = footer(max(base_files(table_path), key=lambda file: file.name.rpartition("_")[2]))
    keys = pa.array(["a", "b"])
    assert read_bloom(newest["org.apache.hudi.bloomfilter"], "DYNAMIC_V0").might_contain(keys).all()


def test_write_stats_agree_with_the_files(made: str) -> None:
    commit = commits(made)[0]
    assert commit["operationType"] == "BULK_INSERT"
    assert commit["compacted"] is False
    found = {s["path"]: s for s in stats(commit)}
    assert sorted(found) == [str(f.relative_to(made)) for f in base_files(made)]
    for path, stat in found.items():
        file = Path(made, path)
        assert stat["fileSizeInBytes"] == stat["totalWriteBytes"] == file.stat().st_size
        assert stat["numWrites"] == stat["numInserts"] == pq.read_metadata(file).num_rows
        assert (stat["prevCommit"], stat["numUpdateWrites"], stat["numDeletes"]) == ("null", 0, 0)
        assert stat["partitionPath"] == file.parent.name
        assert file.name.startswith(stat["fileId"])


@pytest.mark.parametrize(
    ("codec", "stored"), [(None, "GZIP"), ("snappy", "SNAPPY"), ("zstd", "ZSTD"), ("UNCOMPRESSED", "UNCOMPRESSED")]
)
def test_files_have_the_requested_codec(spark: Any, table_path: str, codec: str | None, stored: str) -> None:
    write(trips(spark, SIX[0]), table_path, BULK if codec is None else {**BULK, "hoodie.parquet.compression.codec": codec})
    group = pq.read_metadata(base_files(table_path)[0]).row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {stored}


def test_generated_keys_are_instant_task_and_row(spark: Any, table_path: str) -> None:
    frame = spark.range(0, 40, 1, 2).selectExpr("id", "id % 3 as p")
    write(frame, table_path, {NAME: "t", "hoodie.datasource.write.partitionpath.field": "p"})
    keys = [r[0] for r in load(spark, table_path).select("_hoodie_record_key").collect()]
    assert len(set(keys)) == 40
    time = timeline(table_path)[0].split(".")[0]
    assert {k.split("_")[0] for k in keys} == {time}
    assert {k.split("_")[1] for k in keys} == {"0", "1"}


def test_without_meta_fields_the_meta_columns_exist_and_are_null(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, "hoodie.populate.meta.fields": "false"})
    frame = load(spark, table_path)
    assert frame.columns == [*META, "id", "city", "ts", "fare"]
    assert {tuple(r) for r in frame.select(*META).collect()} == {(None,) * 5}
    assert snapshot(spark, table_path) == [*SIX]
    assert all("org.apache.hudi.bloomfilter" not in footer(f) for f in base_files(table_path))
    assert all("hoodie_min_record_key" not in footer(f) for f in base_files(table_path))
    write(trips(spark, ("g", "rome", 7, 0.5)), table_path, {OPERATION: "insert"})
    assert len(snapshot(spark, table_path)) == 7


# --- how rows are arranged


def numbers(spark: Any, rows: int = 3000, parts: int = 3) -> Any:
    """Return rows in random order, spread over several Spark partitions and cities."""
    return spark.range(0, rows, 1, parts).selectExpr(
        "lpad(cast((id * 7919) % 100003 as string), 6, '0') as id",
        "concat('c', id % 4) as city",
        "id as ts",
        "cast((id * 31) % 101 as double) as fare",
    )


def keys_by_file(path: str) -> dict[str, list[list[str]]]:
    found = defaultdict(list)
    for file in base_files(path):
        found[file.parent.name].append(pq.read_table(file)["_hoodie_record_key"].to_pylist())
    return found


@pytest.mark.parametrize(
    "mode", ["NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"]
)
def test_every_sort_mode_writes_every_row_once(spark: Any, table_path: str, mode: str) -> None:
    write(numbers(spark), table_path, {**BULK, SORT: mode, PARALLELISM: 2})
    files = keys_by_file(table_path)
    assert sum(len(keys) for its in files.values() for keys in its) == 3000
    assert len({k for its in files.values() for keys in its for k in keys}) == 3000
    assert sorted(files) == ["c0", "c1", "c2", "c3"]
    counts = {city: len(its) for city, its in files.items()}
    if mode == "NONE":
        assert set(counts.values()) == {3}
    if mode == "GLOBAL_SORT":
        assert sum(counts.values()) <= 5
        for its in files.values():
            ordered = sorted(its)
            assert [k for keys in ordered for k in keys] == sorted(k for keys in its for k in keys)
    if mode == "PARTITION_SORT":
        assert set(counts.values()) == {2}
        assert all(keys == sorted(keys) for its in files.values() for keys in its)
    if mode.startswith("PARTITION_PATH_REPARTITION"):
        assert set(counts.values()) == {1}


def test_a_column_sorting_partitioner_sorts_by_its_columns(spark: Any, table_path: str) -> None:
    name = "org.apache.hudi.execution.bulkinsert.RowCustomColumnsSortPartitioner"
    columns = {"hoodie.bulkinsert.user.defined.partitioner.sort.columns": "fare,ts"}
    write(numbers(spark), table_path, {**BULK, PARTITIONER: name, **columns, PARALLELISM: 2})
    for file in base_files(table_path):
        table = pq.read_table(file)
        pairs = list(zip(table["fare"].to_pylist(), table["ts"].to_pylist(), strict=True))
        assert pairs == sorted(pairs)
    with pytest.raises(OptionError, match=r"sort\.columns"):
        write(numbers(spark), table_path, {**BULK, PARTITIONER: name})
    with pytest.raises(SchemaError, match="nothing"):
        write(numbers(spark), table_path, {**BULK, PARTITIONER: name, **dict.fromkeys(columns, "nothing")})


def test_a_sort_mode_needs_meta_fields(spark: Any, table_path: str) -> None:
    with pytest.raises(OptionError, match=r"hoodie\.populate\.meta\.fields"):
        write(trips(spark, SIX[0]), table_path, {**BULK, SORT: "GLOBAL_SORT", "hoodie.populate.meta.fields": "false"})
    assert not Path(table_path).exists()


@pytest.mark.parametrize("operation", ["bulk_insert", "insert"])
def test_a_small_limit_of_file_size_splits_rows_into_several_files(spark: Any, table_path: str, operation: str) -> None:
    frame = spark.range(0, 40_000, 1, 1).selectExpr(
        "cast(id as string) as id", "'x' as city", "id as ts", "sha2(cast(id as string), 256) as text"
    )
    largest = 400_000
    sizes = {"hoodie.parquet.max.file.size": largest, "hoodie.copyonwrite.record.size.estimate": 100}
    write(frame, table_path, {**BULK, OPERATION: operation, **sizes, "hoodie.parquet.small.file.limit": 0})
    files = base_files(table_path)
    assert sum(pq.read_metadata(f).num_rows for f in files) == 40_000
    found = [f.stat().st_size for f in files]
    assert len(files) >= 4
    assert max(found) < largest * 2  # the filter in the footer comes on top
    assert len({parse_base_name(f.name).file_id for f in files}) == len(files)  # type: ignore[union-attr]
    assert load(spark, table_path).select("id").distinct().count() == 40_000


# --- one row per key


TIES = [("a", "x", 1, 1.0), ("a", "x", 2, 2.0), ("a", "x", 2, 3.0), ("b", "x", 1, 4.0), ("a", "y", 0, 5.0)]


@pytest.mark.parametrize(("options", "winner"), [(BULK, 2.0), (INSERT, 3.0)], ids=["bulk_insert", "insert"])
def test_combining_keeps_the_greatest_ordering_value_of_a_key_in_a_partition(
    spark: Any, table_path: str, options: dict[str, Any], winner: float
) -> None:
    """Among equals a bulk_insert keeps the first one, an insert the last one."""
    write(trips(spark, *TIES).coalesce(1), table_path, {**options, COMBINE: "true"})
    assert snapshot(spark, table_path) == [("a", "x", 2, winner), ("a", "y", 0, 5.0), ("b", "x", 1, 4.0)]


@pytest.mark.parametrize("options", [BULK, INSERT], ids=["bulk_insert", "insert"])
def test_rows_of_the_default_partition_are_combined_whatever_their_values(
    spark: Any, table_path: str, options: dict[str, Any]
) -> None:
    cities = (("a", None, 1), ("a", "", 3), ("a", "__HIVE_DEFAULT_PARTITION__", 2), ("b", None, 1), ("a", "x", 1))
    write(trips(spark, *((key, city, ts, 0.5) for key, city, ts in cities)), table_path, {**options, COMBINE: "true"})
    assert sorted((key, ts) for key, _, ts, _ in snapshot(spark, table_path)) == [("a", 1), ("a", 3), ("b", 1)]


def test_with_a_global_index_a_key_is_combined_across_partitions(spark: Any, table_path: str) -> None:
    write(trips(spark, *TIES).coalesce(1), table_path, {**INSERT, COMBINE: "true", "hoodie.index.type": "GLOBAL_SIMPLE"})
    assert snapshot(spark, table_path) == [("a", "x", 2, 3.0), ("b", "x", 1, 4.0)]


def test_without_combining_every_row_stays(spark: Any, table_path: str) -> None:
    write(trips(spark, *TIES), table_path)
    assert len(snapshot(spark, table_path)) == 5


def test_a_row_without_an_ordering_value_cannot_be_combined(spark: Any, table_path: str) -> None:
    frame = values(spark, "id string, city string, ts bigint", ("a", "x", 1), ("a", "x", None))
    with pytest.raises(SchemaError, match="Ordering value is null"):
        write(frame, table_path, {**BULK, COMBINE: "true"})
    assert not Path(table_path).exists()


def test_combining_without_an_ordering_column_is_refused(spark: Any, table_path: str) -> None:
    frame = values(spark, "id string, city string", ("a", "x"))
    with pytest.raises(SchemaError, match="ts"):
        write(frame, table_path, {NAME: "t", KEY: "id", OPERATION: "bulk_insert", COMBINE: "true"})
    assert not Path(table_path).exists()


def test_combining_generated_keys_is_refused(spark: Any, table_path: str) -> None:
    with pytest.raises(OptionError, match=r"hoodie\.combine\.before\.insert"):
        write(trips(spark, SIX[0]), table_path, {NAME: "t", COMBINE: "true"})
    assert not Path(table_path).exists()


def test_rows_of_unusual_types_are_combined_too(spark: Any, table_path: str) -> None:
    """Maps have no order in Spark; combining must not need one."""
    frame = spark.sql(
        "select 'a' id, 1 ts, map('k', 1) m, array(1) l, named_struct('x', 1) s union all "
        "select 'a', 2, map('k', 2), array(2), named_struct('x', 2)"
    )
    write(frame, table_path, {NAME: "t", KEY: "id", OPERATION: "bulk_insert", COMBINE: "true"})
    assert snapshot(spark, table_path) == [("a", 2, {"k": 2}, [2], (2,))]

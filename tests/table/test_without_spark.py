"""Rows that are read without Spark: the same as Spark's, for tables of all kinds, and few bytes of them where a filter allows it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import ChangesLost, OptionError, SchemaError
from tests.kit.counting import counted
from tests.kit.golden import golden_names, unpack_golden
from tests.table.tables import BULK, HIVE_STYLE, INSERT, OPERATION, SIX, TRIPS, URL_ENCODE, load, trips, values, write

MOR = "hoodie.datasource.write.table.type"
LOGS = {**TRIPS, MOR: "MERGE_ON_READ"}
NEWER = (("a", "berlin", 9, 9.5), ("g", "paris", 9, 9.5))


def plain(value: Any) -> Any:
    """Return a value of Spark or Arrow in one form."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return sorted((key, plain(item)) for key, item in value.items())
    if isinstance(value, list):
        return sorted((plain(item) for item in value), key=repr) if value and type(value[0]) is tuple else list(map(plain, value))
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def spark_rows(frame: Any) -> list[str]:
    """Return the rows of a DataFrame in one form, sorted."""
    return sorted(repr([plain(value) for value in row]) for row in frame.collect())


def arrow_rows(table: pa.Table) -> list[str]:
    """Return the rows of an Arrow table in the same form, sorted."""
    return sorted(repr([plain(value) for value in row.values()]) for row in table.to_pylist())


def check_same(spark: Any, path: str, **options: Any) -> pa.Table:
    """Check that Arrow and Spark read the same rows. Return Arrow's."""
    frame = load(spark, path, **options)
    found = penstock.Table.open(path).to_arrow(options=options)
    assert found.column_names == frame.columns
    assert arrow_rows(found) == spark_rows(frame)
    return found


@pytest.mark.parametrize("name", golden_names())
def test_tables_of_real_hudi_have_the_rows_that_spark_reads(spark: Any, tmp_path: Path, name: str) -> None:
    path = str(unpack_golden(name, tmp_path))
    check_same(spark, path)
    check_same(spark, path, **{"hoodie.datasource.query.type": "read_optimized"})


@pytest.mark.parametrize("kind", [TRIPS, {**TRIPS, HIVE_STYLE: "true"}, {**TRIPS, URL_ENCODE: "true"}, LOGS])
def test_a_table_that_was_changed_has_the_rows_that_spark_reads(spark: Any, table_path: str, kind: dict[str, Any]) -> None:
    write(trips(spark, *SIX, ("h", "new york/ny" if URL_ENCODE in kind else "x", 1, 0.5), ("i", None, 1, 0.5)), table_path, kind)
    write(trips(spark, *NEWER), table_path, kind)
    write(trips(spark, SIX[1]), table_path, {**kind, OPERATION: "delete"})
    found = check_same(spark, table_path)
    assert found.num_rows == 8
    table = penstock.Table.open(table_path)
    first = table.history()[-1].instant
    assert arrow_rows(table.to_arrow(as_of=first)) == spark_rows(table.read(as_of=first))
    assert arrow_rows(table.changes(since=first).to_arrow()) == spark_rows(table.read_changes(since=first))
    assert table.changes(since=first, columns=["id"]).to_arrow().sort_by("id")["id"].to_pylist() == ["a", "g"]


def test_merge_types_and_view_kinds_are_those_of_spark(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, LOGS)
    write(trips(spark, *NEWER), table_path, LOGS)
    assert check_same(spark, table_path, **{"hoodie.datasource.query.type": "read_optimized"}).num_rows == 7
    assert check_same(spark, table_path, **{"hoodie.datasource.merge.type": "skip_merge"}).num_rows == 8


def test_columns_that_were_added_or_widened_are_read_in_their_current_type(spark: Any, table_path: str) -> None:
    write(values(spark, "id string, city string, ts bigint, n int", ("a", "oslo", 1, 1), ("b", "rome", 1, 2)), table_path, INSERT)
    rows = values(spark, "id string, city string, ts bigint, n bigint, more string", ("a", "oslo", 2, 1 << 40, "x"))
    write(rows, table_path, TRIPS)
    found = check_same(spark, table_path)
    assert found.schema.field("n").type == pa.int64()
    # The file of rome holds an int and lacks the last column: neither may hide its row from a condition.
    table = penstock.Table.open(table_path)
    assert table.to_arrow(["id"], where=pc.field("n") < 5)["id"].to_pylist() == ["b"]
    assert table.to_arrow(["id"], where=pc.field("more").is_null())["id"].to_pylist() == ["b"]


def test_partition_columns_that_files_do_not_store_come_from_the_folders(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, "hoodie.datasource.write.drop.partition.columns": "true"})
    check_same(spark, table_path)
    table = penstock.Table.open(table_path)
    assert table.to_arrow(["city", "id"], where=[("city", "==", "paris")])["city"].to_pylist() == ["paris", "paris"]


def test_a_condition_on_the_partition_column_opens_no_other_file(spark: Any, table_path: str, tmp_path: Path) -> None:
    write(trips(spark, *SIX), table_path)
    table = penstock.Table(f"count:{table_path}")
    for where in (
        [("city", "==", "paris")],
        pc.field("city").isin(["paris"]),
        (pc.field("city") > "london") & (pc.field("city") < "rome"),
    ):
        with counted(spark, tmp_path / "counts") as account:
            found = table.to_arrow(["id"], where=where)
        assert sorted(found["id"].to_pylist()) == ["c", "d"]
        assert account.counts.opened == len(list(Path(table_path, "paris").glob("*.parquet")))


def test_row_groups_without_a_row_of_the_condition_are_not_read(spark: Any, table_path: str, tmp_path: Path) -> None:
    rows = spark.range(0, 300_000, 1, 1).selectExpr("cast(id as string) id", "'x' city", "id ts", "cast(id as double) fare")
    write(rows, table_path)
    file = next(Path(table_path).rglob("*.parquet"))
    groups = pq.ParquetFile(file).metadata.num_row_groups
    assert groups > 1  # how many depends on the version of Arrow
    table = penstock.Table(f"count:{table_path}")
    with counted(spark, tmp_path / "counts") as account:
        assert table.to_arrow(["id", "ts"], where=[("ts", "<", 5)]).num_rows == 5
    assert account.counts.chunks == 2  # two columns of one row group
    with counted(spark, tmp_path / "counts") as account:
        assert table.to_arrow(["id", "ts"], where=[("fare", ">=", 0)]).num_rows == 300_000
    assert account.counts.chunks == 3 * groups


def test_batches_have_the_schema_of_the_scan_and_come_in_the_same_order(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path)
    table = penstock.Table.open(table_path)
    scan = table.scan(["fare", "id"])
    assert (scan.schema.names, scan.schema.types) == (["fare", "id"], [pa.float64(), pa.string()])
    orders = {tuple(scan.to_arrow()["id"].to_pylist()) for _ in range(5)}
    assert len(orders) == 1
    assert pa.table(scan).num_rows == 6
    assert sum(batch.num_rows for batch in scan) == 6


def test_a_table_without_rows_has_no_batches(spark: Any, table_path: str) -> None:
    table = penstock.Table.create(table_path, "id string, n long", name="empty", record_key="id", spark=spark)
    assert table.to_arrow().num_rows == 0
    assert table.scan(["n"]).schema.names == ["n"]


def test_other_libraries_take_the_rows(spark: Any, table_path: str) -> None:
    pytest.importorskip("duckdb")
    write(trips(spark, *SIX), table_path)
    table = penstock.Table.open(table_path)
    assert sorted(table.to_pandas(["id"])["id"]) == [trip[0] for trip in SIX]
    assert table.to_polars(["id"]).height == 6
    assert table.to_duckdb().aggregate("sum(fare)").fetchall() == [(24.0,)]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"columns": ["nothing"]}, SchemaError, "no column 'nothing'"),
        ({"columns": []}, OptionError, "columns is empty"),
        ({"where": "fare > 2"}, OptionError, "pass an Arrow expression"),
        ({"where": [("fare", "~", 2)]}, OptionError, "is not a condition"),
        ({"where": pc.field("nothing") > 2}, OptionError, "cannot be evaluated on the table's columns"),
        ({"as_of": "never"}, OptionError, "never"),
        ({"partitions": ["atlantis"]}, OptionError, "atlantis"),
    ],
)
def test_a_wrong_argument_is_named(spark: Any, table_path: str, arguments: dict[str, Any], error: Any, match: str) -> None:
    write(trips(spark, *SIX), table_path)
    with pytest.raises(error, match=match):
        penstock.Table.open(table_path).to_arrow(**arguments)


def test_changes_that_were_cleaned_are_an_error(spark: Any, table_path: str) -> None:
    for number in range(3):
        write(trips(spark, *[(key, city, number, 0.5) for key, city, *_ in SIX]), table_path, TRIPS)
    table = penstock.Table.open(table_path)
    assert table.clean({"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 1})
    with pytest.raises(ChangesLost, match="was cleaned since"):
        table.changes(since="000", until=table.history()[-2].instant)


def test_a_process_without_spark_reads_a_table(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, LOGS)
    write(trips(spark, *NEWER), table_path, LOGS)
    code = """
        import sys

        class NoSpark:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("pyspark", "py4j"):
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, NoSpark())
        import penstock

        table = penstock.Table.open(sys.argv[1])
        assert table.to_arrow().num_rows == 7
        assert table.changes(since=table.history()[-1].instant).to_arrow().num_rows == 2
        assert table.files() and table.health() is not None
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), table_path], check=True)

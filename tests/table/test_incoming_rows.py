"""What the methods of `Table` accept as rows: frames of Spark, pandas, polars and Arrow, lists of dicts, paths, conditions."""

from __future__ import annotations

import datetime as dt
import logging
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from penstock import Table
from penstock.errors import OptionError, PenstockError, SchemaError, TableNotFound
from tests.kit.templates import Templates
from tests.table.tables import META, SIX, sorted_rows, state_of, trips

DDL = "id string, city string, ts bigint, fare double"
COLUMNS: dict[str, Any] = {"name": "trips", "record_key": "id", "partition_by": "city", "ordering": "ts"}
NEWS = {"id": ["f", "g"], "city": ["tokyo", "rome"], "ts": [7, 8], "fare": [7.5, None]}
AFTER = sorted([*SIX[:5], ("f", "tokyo", 7, 7.5), ("g", "rome", 8, None)])
TYPES = (
    "id string, small int, price decimal(10,2), day date, seen timestamp, wall timestamp_ntz, tags array<string>, "
    "counts map<string,int>, place struct<x:int,y:double>"
)


@pytest.fixture
def table(spark: Any, table_path: str, templates: Templates) -> Table:
    """Six trips in three cities."""

    def make(path: str) -> None:
        Table.create(path, DDL, spark=spark, **COLUMNS).insert(trips(spark, *SIX))

    return Table.open(templates.copy("created", make, table_path), spark)


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted_rows(table.read().drop(*META))


def forms(folder: Path) -> dict[str, Any]:
    """Return two rows in every form that is accepted."""
    arrow = pa.table(NEWS)
    pq.write_table(arrow, folder / "news.parquet")
    return {
        "pandas": pd.DataFrame(NEWS),
        "pandas with an index": pd.DataFrame(NEWS).set_index("id"),
        "pandas after a filter": pd.DataFrame(NEWS).query("ts > 0"),
        "polars": pl.DataFrame(NEWS),
        "polars, lazy": pl.LazyFrame(NEWS),
        "arrow": arrow,
        "arrow batch": arrow.to_batches()[0],
        "arrow reader": arrow.to_reader(),
        "arrow with dictionaries": arrow.set_column(1, "city", arrow["city"].dictionary_encode()),
        "list of dicts": arrow.to_pylist(),
        "dicts without a key": [{"id": "f", "city": "tokyo", "ts": 7, "fare": 7.5}, {"id": "g", "city": "rome", "ts": 8}],
        "path": folder / "news.parquet",
        "path as text": str(folder / "news.parquet"),
        "folder": str(folder),
    }


FORMS = [
    "pandas", "pandas with an index", "pandas after a filter", "polars", "polars, lazy", "arrow", "arrow batch", "arrow reader",
    "arrow with dictionaries", "list of dicts", "dicts without a key", "path", "path as text", "folder",
]  # fmt: skip


@pytest.mark.everywhere
@pytest.mark.parametrize("form", FORMS)
def test_an_upsert_takes_rows_in_every_form(table: Table, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    commit = table.upsert(forms(folder)[form])
    assert (commit.rows_updated, commit.rows_inserted) == (1, 1)
    assert rows_of(table) == AFTER
    assert table.schema.simpleString() == "struct<id:string,city:string,ts:bigint,fare:double>"


def test_every_method_with_rows_takes_a_list_of_dicts(table: Table) -> None:
    row = [{"id": "x", "city": "rome", "ts": 1, "fare": 1.0}]
    assert [(group.partition_path, group.rows_new) for group in table.plan_upsert(row).groups] == [("rome", 1)]
    assert [merge.key for merge in table.explain_merge(row)] == ["x"]
    assert table.insert(row).rows_inserted == 1
    assert table.bulk_insert([{**row[0], "id": "y"}]).rows_inserted == 1
    assert table.insert_overwrite(row).rows_inserted == 1
    assert table.delete(row).rows_deleted == 1
    assert rows_of(table) == sorted(SIX)


def test_many_rows_arrive_in_pieces(table: Table) -> None:
    number = 200_000
    keys = pa.array(range(number)).cast(pa.string())
    city = pa.array(["berlin"] * number)
    table.bulk_insert(pa.table({"id": keys, "city": city, "ts": range(number), "fare": pa.array([0.5] * number)}))
    row = table.read().where("fare = 0.5").agg(F.count("*"), F.sum("ts"), F.countDistinct("id")).first()
    assert tuple(row) == (number, number * (number - 1) // 2, number)


def typed_rows() -> list[dict[str, Any]]:
    moment = dt.datetime(2026, 3, 1, 12, 30, 0, 5)
    return [
        {
            "id": "a",
            "small": 1,
            "price": Decimal("1.50"),
            "day": moment.date(),
            "seen": moment,
            "wall": moment,
            "tags": ["x", None],
            "counts": {"k": 1},
            "place": {"x": 1, "y": 2},
        },
        {"id": "b", "small": None, "place": None, "tags": []},
    ]


@pytest.mark.parametrize("form", ["dicts", "arrow"])
def test_values_take_the_types_of_the_table(spark: Any, table_path: str, form: str) -> None:
    table = Table.create(table_path, TYPES, spark=spark, name="t", record_key="id")
    kinds = pa.schema(
        [
            ("id", pa.large_string()),
            ("small", pa.int16()),
            ("price", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("seen", pa.timestamp("ns")),
            ("wall", pa.timestamp("us")),
            ("tags", pa.large_list(pa.large_string())),
            ("counts", pa.map_(pa.string(), pa.int32())),
            ("place", pa.struct([("x", pa.int32()), ("y", pa.float64())])),
        ]
    )
    rows: Any = typed_rows()
    if form == "arrow":
        dicts = [{**row, "counts": list((row.get("counts") or {}).items()) or None} for row in rows]
        rows = pa.Table.from_pylist(dicts, schema=kinds)
    schema = table.schema
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        table.upsert(rows)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert table.schema == schema
    texts = table.read().selectExpr(
        "id", "cast(seen as string)", "cast(wall as string)", "price", "day", "tags", "counts", "place"
    )
    first, second = texts.orderBy("id").collect()
    moment = "2026-03-01 {}:30:00.000005"
    assert tuple(first)[:6] == ("a", moment.format(17), moment.format(12), Decimal("1.50"), dt.date(2026, 3, 1), ["x", None])
    assert (first.counts, tuple(first.place)) == ({"k": 1}, (1, 2.0))
    assert (second.id, second.place, second.tags, second.counts) == ("b", None, [], None)


def test_integers_of_pandas_do_not_widen_a_column_that_can_hold_them(spark: Any, table_path: str) -> None:
    table = Table.create(table_path, "id string, n int", spark=spark, name="t", record_key="id")
    table.upsert(pd.DataFrame({"id": ["a", "b"], "n": [1, None]}))
    table.upsert([{"id": "c", "n": 3}])
    assert table.schema.simpleString() == "struct<id:string,n:int>"
    table.upsert([{"id": "d", "n": 2**40}])
    assert table.schema.simpleString() == "struct<id:string,n:bigint>"
    assert rows_of(table) == [("a", 1), ("b", None), ("c", 3), ("d", 2**40)]


@pytest.mark.parametrize("form", ["arrow", "arrow batch", "arrow reader", "polars", "polars, lazy"])
def test_integers_of_arrow_and_polars_do_not_widen_a_column_that_can_hold_them(spark: Any, table_path: str, form: str) -> None:
    schema = "id string, n int, tags array<int>, place struct<x:int,y:double>"
    table = Table.create(table_path, schema, spark=spark, name="t", record_key="id")

    def in_form(*rows: dict[str, Any]) -> Any:
        arrow = pa.Table.from_pylist(list(rows))
        assert arrow.schema.field("n").type == pa.int64()
        of_polars = cast("pl.DataFrame", pl.from_arrow(arrow))
        made = {
            "arrow": arrow,
            "arrow batch": arrow.to_batches()[0],
            "arrow reader": arrow.to_reader(),
            "polars": of_polars,
            "polars, lazy": of_polars.lazy(),
        }
        return made[form]

    before = table.schema.simpleString()
    table.upsert(in_form({"id": "a", "n": 1, "tags": [1, None], "place": {"x": 1, "y": 2.0}}, {"id": "b", "n": None}))
    assert table.schema.simpleString() == before
    assert rows_of(table) == [("a", 1, [1, None], (1, 2.0)), ("b", None, None, None)]
    table.upsert(in_form({"id": "c", "n": 2**40, "tags": [3], "place": {"x": 1, "y": 2.0}}))
    assert table.schema.simpleString() == before.replace("n:int", "n:bigint")
    assert sorted(row[1] for row in rows_of(table) if row[1]) == [1, 2**40]


def test_numbers_with_a_fraction_in_dicts_are_not_cut(spark: Any, table_path: str) -> None:
    table = Table.create(table_path, "id string, n int, m int, counts map<string,int>", spark=spark, name="t", record_key="id")
    table.upsert([{"id": "a", "n": 1.0, "m": Decimal("2.0"), "counts": {"k": 1}}])
    assert table.schema.simpleString() == "struct<id:string,n:int,m:int,counts:map<string,int>>"
    table.upsert([{"id": "b", "n": 1.5, "m": 3, "counts": {"k": 1}}])
    assert table.schema.simpleString() == "struct<id:string,n:double,m:int,counts:map<string,int>>"
    assert rows_of(table) == [("a", 1.0, 2, {"k": 1}), ("b", 1.5, 3, {"k": 1})]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"day": dt.datetime(2026, 3, 1, 12)}, "'day' is date in the table and timestamp"),
        ({"day": 20260301}, "'day' is date in the table and bigint"),
        ({"seen": 1772366400000}, "'seen' is timestamp in the table and bigint"),
        ({"counts": {"k": 1.5}}, "'counts' is map<string,int> in the table"),
        ({"price": True, "counts": {"k": 1}}, "do not fit the table: 'price' is decimal[^']*$"),
    ],
    ids=str,
)
def test_values_of_dicts_that_a_column_cannot_hold_are_an_error_that_names_it(
    spark: Any, table_path: str, row: dict[str, Any], says: str
) -> None:
    table = Table.create(table_path, TYPES, spark=spark, name="t", record_key="id")
    nulls = dict.fromkeys(table.schema.names)
    with pytest.raises(SchemaError, match=says):
        table.upsert([{**nulls, "id": "a", **row}])


def test_a_column_of_nulls_has_the_type_of_the_table(table: Table) -> None:
    table.upsert([{"id": "a", "city": "berlin", "ts": 9, "fare": None}])
    assert rows_of(table)[0] == ("a", "berlin", 9, None)


def test_no_rows_are_a_commit_without_rows(table: Table) -> None:
    assert table.upsert([]).rows_inserted == 0
    assert table.upsert(pd.DataFrame(NEWS).iloc[:0].astype({"id": str, "city": str})).rows_inserted == 0
    assert rows_of(table) == sorted(SIX)


@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        (5, OptionError, "type int: pass a DataFrame of Spark, pandas or polars"),
        (None, OptionError, "type NoneType"),
        ({"id": ["a"]}, OptionError, "type dict"),
        ([("a", "berlin", 1, 1.5)], OptionError, "a list of tuple"),
        (["a"], OptionError, "a list of str"),
        ([{"id": "a", "ts": 1}, {"id": "b", "ts": "one"}], SchemaError, "values of one type"),
        (pd.DataFrame({"id": ["a", 5]}), SchemaError, "column id"),
        (pa.table({"id": ["a"], "d": pa.array([1], pa.duration("s"))}), SchemaError, "column 'd'|column d"),
        ("/nowhere/at/all.parquet", OptionError, "'/nowhere/at/all.parquet' cannot be read as Parquet"),
        (Path("/nowhere"), OptionError, "cannot be read as Parquet"),
    ],
    ids=str,
)
def test_other_rows_are_a_typed_error_and_the_table_stays(table: Table, rows: Any, error: type[Exception], says: str) -> None:
    before = state_of(table.path)
    with pytest.raises(error, match=says):
        table.upsert(rows)
    assert state_of(table.path) == before


def test_a_parquet_file_with_nanoseconds_says_how_to_pass_its_rows(table: Table, tmp_path: Path) -> None:
    rows = pa.table({**NEWS, "seen": pa.array([0, 1], pa.timestamp("ns"))})
    pq.write_table(rows, tmp_path / "nanos.parquet")
    with pytest.raises(OptionError, match="NANOS.*pass the rows themselves, .*coerce_timestamps='us'"):
        table.upsert(tmp_path / "nanos.parquet")
    assert table.upsert(rows).rows_inserted == 1


def test_a_new_thread_takes_the_session_of_the_program(table: Table) -> None:
    with ThreadPoolExecutor(1) as pool:
        upsert = pool.submit(lambda: Table.open(table.path).upsert([{**dict.fromkeys(NEWS), "id": "x", "city": "rome", "ts": 1}]))
        assert upsert.result().rows_inserted == 1


def test_a_table_is_not_created_from_a_frame_of_pandas(spark: Any, table_path: str) -> None:
    with pytest.raises(OptionError, match=r"schema cannot be of the type pandas.DataFrame: .*pyarrow.Schema.from_pandas"):
        Table.create(table_path, pd.DataFrame(NEWS), spark=spark, **COLUMNS)  # type: ignore[arg-type]


def test_a_table_or_its_path_is_not_taken_for_rows(table: Table) -> None:
    with pytest.raises(OptionError, match=r"type Table: .*; call its read\(\)"):
        table.upsert(table)
    with pytest.raises(OptionError, match=r"is a Hudi table.*Table.open\(path\).read\(\)"):
        table.upsert(table.path)


# conditions


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("condition", ["fare > 30 or ts in (1, 4)", "column"])
def test_a_delete_takes_a_condition(spark: Any, table_path: str, table_type: str, condition: str) -> None:
    table = Table.create(table_path, DDL, spark=spark, table_type=table_type, **COLUMNS)
    table.insert(trips(spark, *SIX, ("n", "rome", 9, None)))
    table.upsert(trips(spark, ("b", "berlin", 10, 40.0)))
    column = (F.col("fare") > 30) | F.col("ts").isin(1, 4)
    commit = table.delete(column if condition == "column" else condition)
    assert (commit.operation, commit.rows_deleted) == ("delete", 3)
    assert [row[0] for row in rows_of(table)] == ["c", "e", "f", "n"], "a condition that is null deletes nothing"


def test_a_delete_takes_the_path_of_keys(table: Table, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "city": ["berlin"]}), tmp_path / "keys.parquet")
    table.delete(tmp_path / "keys.parquet")
    assert rows_of(table) == sorted(SIX[1:])


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("far > 30", "'far > 30' is not a condition over the table's columns: .*far"),
        ("fare >", "'fare >' is not a condition"),
        ("fare", "'fare' is not a condition"),
        (" ", "the condition is empty"),
        ("/data/keys.parquet", r"pass a pathlib.Path if it is the path"),
    ],
)
def test_a_wrong_condition_is_a_typed_error_and_the_table_stays(table: Table, condition: str, says: str) -> None:
    before = state_of(table.path)
    with pytest.raises(OptionError, match=says):
        table.delete(condition)
    assert state_of(table.path) == before


@pytest.mark.parametrize("as_column", [False, True], ids=["text", "column"])
def test_a_wrong_condition_leaves_nothing_in_the_log_of_pyspark(table: Table, as_column: bool) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    loggers = [
        pytest.importorskip("pyspark.logger", reason="PySpark 3.5 has no log of queries").PySparkLogger.getLogger(name)
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    ]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        with pytest.raises(OptionError):
            table.delete(F.col("far") > 30 if as_column else "far > 30")
        assert records == []
        with pytest.raises(Exception, match="far"):
            _ = table.read().where("far > 30").columns
        assert len(records) == 1, "errors of the user's own queries are logged as before"
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def test_a_condition_is_evaluated_on_the_table_that_the_write_found(
    table: Table, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    """Another write completes after the condition was planned: the delete begins again, with the rows of that write."""
    from penstock.door import write as door

    prepare = door.prepare_rows
    came_between: list[str] = []

    def write_first(*arguments: Any) -> Any:
        if not came_between:
            came_between.append("yes")
            table.upsert(trips(spark, ("a", "berlin", 20, 50.0), ("f", "tokyo", 20, 1.0)))
        return prepare(*arguments)

    monkeypatch.setattr(door, "prepare_rows", write_first)
    table.delete("fare > 6")
    assert [row[0] for row in rows_of(table)] == ["b", "c", "d", "e", "f"]


def test_a_condition_on_a_deleted_table_is_an_error(table: Table, spark: Any) -> None:
    import shutil

    shutil.rmtree(table.path)
    with pytest.raises(TableNotFound):
        table.delete("fare > 30")
    with pytest.raises(PenstockError):
        table.upsert([{"id": "a"}])

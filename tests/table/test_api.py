"""`penstock.Table`: the same tables as through `format("hudi")`, with verbs instead of option strings."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import penstock
from penstock import Table
from penstock.api import DataFile, HistoryEntry
from penstock.errors import OptionError, SchemaError, TableExists, TableNotFound, Unsupported
from tests.kit.templates import Templates
from tests.table.tables import (
    BULK,
    HIVE_STYLE,
    META,
    SIX,
    TRIPS,
    commits,
    load,
    properties,
    snapshot,
    sorted_rows,
    spoil,
    state_of,
    trips,
    values,
    write,
)

DDL = "id string, city string, ts bigint, fare double"
COLUMNS = {"name": "trips", "record_key": "id", "partition_by": "city", "ordering": "ts"}


@pytest.fixture
def table(spark: Any, table_path: str, templates: Templates) -> Table:
    """Six trips in three cities."""

    def make(path: str) -> None:
        Table.create(path, DDL, spark=spark, **COLUMNS).insert(trips(spark, *SIX))

    return Table.open(templates.copy("created", make, table_path), spark)


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted_rows(frame.drop(*META))


# making and opening


def test_a_created_table_is_empty_and_knows_its_columns(spark: Any, table_path: str) -> None:
    table = Table.create(table_path, DDL, spark=spark, **COLUMNS)
    assert Table.exists(table_path)
    assert table.read().collect() == []
    assert table.read().columns == [*META, "id", "city", "ts", "fare"]
    assert table.schema.simpleString() == "struct<id:string,city:string,ts:bigint,fare:double>"
    assert (len(table.history()), len(table.files())) == (0, 0)
    assert (table.name, table.path) == ("trips", table_path)


@pytest.mark.parametrize("form", ["ddl", "struct", "frame", "frame with meta columns", "arrow"])
def test_columns_can_be_declared_in_any_form(spark: Any, table_path: str, form: str, tmp_path: Path) -> None:
    fields = [("id", StringType()), ("city", StringType()), ("ts", LongType()), ("fare", DoubleType())]
    forms: dict[str, Any] = {
        "ddl": lambda: DDL,
        "struct": lambda: StructType([StructField(name, kind) for name, kind in fields]),
        "frame": lambda: trips(spark, SIX[0]),
        "frame with meta columns": lambda: trips(spark, SIX[0]).selectExpr("'x' as _hoodie_record_key", "*"),
        "arrow": lambda: pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())]),
    }
    table = Table.create(tmp_path / "table", forms[form](), spark=spark, **COLUMNS)
    assert table.schema.simpleString() == "struct<id:string,city:string,ts:bigint,fare:double>"
    table.insert(trips(spark, *SIX))
    assert rows_of(table.read()) == sorted(SIX)


def test_a_created_table_has_the_properties_that_a_first_write_would_set(spark: Any, tmp_path: Path) -> None:
    write(trips(spark, *SIX), str(tmp_path / "door"), {**BULK, HIVE_STYLE: "true"})
    Table.create(tmp_path / "api", DDL, spark=spark, options={HIVE_STYLE: True}, **COLUMNS)
    by_door, by_api = properties(tmp_path / "door"), properties(tmp_path / "api")
    assert by_api.pop("hoodie.table.create.schema").startswith('{"type":"record"')
    by_door.pop("hoodie.table.create.schema", None)
    assert by_api == by_door


def test_options_of_create_apply_to_later_writes_and_a_call_overrides_them(spark: Any, table_path: str) -> None:
    codec = "hoodie.parquet.compression.codec"
    table = Table.create(table_path, DDL, spark=spark, options={"_note": "first"}, **COLUMNS, **{codec.upper(): "snappy"})
    table.insert(trips(spark, SIX[0]))
    table.insert(trips(spark, SIX[2]), options={"_note": "second", codec: "gzip"})
    assert [c["extraMetadata"]["_note"] for c in commits(table_path)] == ["first", "second"]
    assert [codec_of(f) for f in table.files()] == ["SNAPPY", "GZIP"]
    assert HIVE_STYLE not in Table.open(table_path, spark).options


def codec_of(file: DataFile) -> str:
    import pyarrow.parquet as pq

    return str(pq.read_metadata(file.path).row_group(0).column(5).compression)


def test_creating_a_table_twice_is_an_error_and_changes_nothing(spark: Any, table: Table) -> None:
    before = state_of(table.path)
    with pytest.raises(TableExists, match=r"Table\.open"):
        Table.create(table.path, DDL, spark=spark, **COLUMNS)
    assert state_of(table.path) == before


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"record_key": "nobody"}, SchemaError, "nobody"),
        ({"partition_by": ["city", "nowhere"]}, SchemaError, "nowhere"),
        ({"ordering": "never"}, SchemaError, "never"),
        ({"name": " "}, OptionError, "hoodie.table.name"),
        ({"table_type": "MERGE_ON_WRITE"}, OptionError, "MERGE_ON_WRITE"),
        ({"recordkey": "id"}, OptionError, "recordkey"),
        ({"options": {"hoodie.datasource.write.operation": "insert"}}, OptionError, "decided by the method"),
    ],
)
def test_settings_that_no_table_can_have_are_refused_before_anything_is_created(
    spark: Any, table_path: str, changed: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        Table.create(table_path, DDL, spark=spark, **{**COLUMNS, **changed})
    assert not Path(table_path).exists()


def test_a_merge_on_read_table_is_created_and_its_changes_go_to_logs(spark: Any, table_path: str) -> None:
    table = Table.create(table_path, DDL, spark=spark, table_type="MERGE_ON_READ", **COLUMNS)
    table.insert(trips(spark, *SIX))
    table.upsert(trips(spark, ("a", "berlin", 9, 9.5)))
    assert len([p for p in Path(table_path).rglob(".*.log.*") if ".hoodie" not in p.parts]) == 1
    assert snapshot(spark, table_path)[0] == ("a", "berlin", 9, 9.5)


def test_a_path_without_a_table_is_not_opened(spark: Any, table_path: str) -> None:
    assert not Table.exists(table_path)
    with pytest.raises(TableNotFound, match="not a Hudi table"):
        Table.open(table_path, spark)


@pytest.mark.parametrize("wrong", [5, None, ["trips"], b"trips"])
def test_a_path_of_another_type_is_a_typed_error(wrong: Any) -> None:
    for attempt in (Table.open, Table.exists, partial(Table.create, schema="id string", name="t", record_key="id")):
        with pytest.raises(OptionError, match=f"cannot be of the type {type(wrong).__name__}: pass its folder"):
            attempt(wrong)


def test_a_deleted_table_is_not_created_again_by_a_write(spark: Any, table: Table) -> None:
    Path(table.path).rename(table.path + "-away")
    with pytest.raises(TableNotFound, match="any more"):
        table.insert(trips(spark, SIX[0]))
    assert repr(table) == f"Table({table.path!r})"


def test_the_active_session_is_used_and_enabled(spark: Any, table: Table) -> None:
    opened = Table.open(table.path)
    assert opened.read().count() == 6
    assert opened == table
    assert load(opened.read().sparkSession, table.path).count() == 6


def test_a_table_can_be_inspected_without_a_session(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    def find_none(cls: type) -> None:
        raise PySparkRuntimeError("there is no session")

    monkeypatch.setattr(SparkSession, "active", classmethod(find_none))
    opened = Table.open(table.path)
    assert (opened.name, len(opened.history()), len(opened.files())) == ("trips", 1, 3)
    assert opened.schema.names == ["id", "city", "ts", "fare"]
    with pytest.raises(OptionError, match=r"penstock\.session\(\)"):
        opened.read()
    with pytest.raises(OptionError, match="spark="):
        Table.create(table.path + "-other", DDL, **COLUMNS)


# writing


def test_each_verb_is_one_commit_and_counts_its_rows(spark: Any, table_path: str) -> None:
    table = Table.create(Path(table_path), DDL, spark=spark, **COLUMNS)
    first = table.bulk_insert(trips(spark, *SIX[:3]), sort_mode="GLOBAL_SORT")
    second = table.insert(trips(spark, *SIX[3:5]))
    third = table.upsert(trips(spark, ("a", "berlin", 9, 9.5), SIX[5]))
    fourth = table.delete(values(spark, "id string, city string", ("b", "berlin"), ("nobody", "paris")))
    counts = [(c.operation, c.rows_inserted, c.rows_updated, c.rows_deleted) for c in (first, second, third, fourth)]
    assert counts == [("bulk_insert", 3, 0, 0), ("insert", 2, 0, 0), ("upsert", 1, 1, 0), ("delete", 0, 0, 1)]
    assert [c.instant for c in (first, second, third, fourth)] == sorted(e.instant for e in table.history())
    assert all(c.files_written > 0 and c.bytes_written > 0 and (c.seconds or 0) > 0 for c in (first, second, third, fourth))
    assert rows_of(table.read()) == sorted([("a", "berlin", 9, 9.5), *SIX[2:]])


def test_the_data_source_reads_and_writes_the_same_table(spark: Any, table: Table) -> None:
    write(trips(spark, ("a", "berlin", 9, 9.5)), table.path, {**TRIPS, "hoodie.datasource.write.operation": "upsert"})
    assert rows_of(table.read()) == snapshot(spark, table.path)
    assert table.history()[0].rows_updated == 1
    assert table.upsert(table.read()).rows_updated == 6


def test_the_method_decides_the_operation(spark: Any, table: Table) -> None:
    before = state_of(table.path)
    for key in ("hoodie.datasource.write.operation", "Hoodie.Datasource.Write.Operation"):
        with pytest.raises(OptionError, match="decided by the method"):
            table.insert(trips(spark, SIX[0]), options={key: "delete"})
    assert state_of(table.path) == before


def test_an_upsert_can_be_planned_without_writing(spark: Any, table: Table) -> None:
    before = state_of(table.path)
    plan = table.plan_upsert(trips(spark, ("a", "berlin", 9, 9.5), ("g", "paris", 7, 7.5)))
    assert [(g.partition_path, g.rows_changed, g.rows_new) for g in plan.groups] == [("berlin", 1, 0), ("paris", 0, 1)]
    assert state_of(table.path) == before


def test_without_an_ordering_column_the_last_row_of_a_key_counts(spark: Any, table_path: str) -> None:
    fares = "id string, fare double"
    table = Table.create(table_path, fares, name="fares", record_key="id", spark=spark)
    table.upsert(values(spark, fares, ("a", 9.0), ("b", 2.0), ("a", 1.0)))
    assert rows_of(table.read()) == [("a", 1.0), ("b", 2.0)]
    assert len(table.plan_upsert(values(spark, fares, ("b", 3.0))).groups) == 1
    with pytest.raises(SchemaError, match="ts"):
        table.upsert(values(spark, fares, ("b", 3.0)), options={"hoodie.datasource.write.precombine.field": "ts"})


def test_a_wrong_sort_mode_is_refused(spark: Any, table: Table) -> None:
    with pytest.raises(OptionError, match="SIDEWAYS"):
        table.bulk_insert(trips(spark, SIX[0]), sort_mode="SIDEWAYS")  # type: ignore[arg-type]


def test_keys_are_generated_where_there_is_no_record_key(spark: Any, table_path: str) -> None:
    table = Table.create(table_path, DDL, name="log", record_key=None, spark=spark)
    table.insert(trips(spark, *SIX, *SIX))
    assert table.read(columns=["_hoodie_record_key"]).distinct().count() == 12
    with pytest.raises(Unsupported, match="record keys"):
        table.upsert(trips(spark, SIX[0]))


# reading


def test_columns_are_read_in_the_requested_order(table: Table) -> None:
    assert [tuple(r) for r in table.read(columns=["fare", "_hoodie_record_key", "id"]).orderBy("id").limit(1).collect()] == [
        (1.5, "a", "a")
    ]
    with pytest.raises(SchemaError, match=r"'nobody'; it has .*, fare"):
        table.read(columns=["id", "nobody"])


def test_only_the_requested_partitions_are_opened(table: Table) -> None:
    spoil(Path(f.path) for f in table.files() if f.partition != "paris")
    assert rows_of(table.read(partitions=["paris"])) == [SIX[2], SIX[3]]
    assert rows_of(table.read(partitions=["paris/"])) == [SIX[2], SIX[3]]
    assert rows_of(table.read(partitions=["p*s"])) == [SIX[2], SIX[3]]
    with pytest.raises(OptionError, match="atlantis"):
        table.read(partitions=["atlantis"])
    assert [f.partition for f in table.files("paris")] == ["paris"]


@pytest.mark.parametrize("partition", ["..", "../table/paris", "paris/../../secret", ".hoodie", "paris/.hoodie_x", "a\0b"])
def test_a_partition_cannot_lead_out_of_the_table(table: Table, partition: str) -> None:
    with pytest.raises(OptionError, match="leads out"):
        table.read(partitions=[partition])
    with pytest.raises(OptionError, match="leads out"):
        table.files(partition)


def test_time_travel_takes_a_commit_an_instant_a_text_and_a_datetime(spark: Any, table: Table) -> None:
    (first,) = table.history()
    commit = table.delete(trips(spark, *SIX[:4]))
    then = first.time + timedelta(milliseconds=1)
    local, utc = then.astimezone(), then.astimezone(timezone.utc)
    for moment in (first.instant, first.time.isoformat(" ", "milliseconds"), then, local, utc):
        assert table.read(as_of=moment).count() == 6, moment
    assert table.read(as_of=commit).count() == table.read().count() == 2
    assert table.read(as_of=datetime(2000, 1, 1)).count() == 0
    with pytest.raises(OptionError, match="yesterday"):
        table.read(as_of="yesterday")


def test_a_read_is_lazy_and_can_be_filtered_joined_and_written_back(spark: Any, table: Table) -> None:
    colours = values(spark, "city string, colour string", ("berlin", "yellow"), ("paris", "green"))
    cheap = table.read().where("fare < 4").join(colours, "city").select("id", "colour")
    assert sorted_rows(cheap) == [("a", "yellow"), ("b", "yellow"), ("c", "green")]
    assert table.delete(table.read().where("city = 'tokyo'")).rows_deleted == 2
    assert table.read().count() == 4


# reports


def test_history_is_newest_first_and_can_be_limited(spark: Any, table: Table) -> None:
    table.upsert(trips(spark, ("a", "berlin", 9, 9.5)))
    assert [e.operation for e in table.history()] == ["upsert", "insert"]
    (newest,) = table.history(limit=1)
    assert newest == HistoryEntry(
        instant=newest.instant,
        time=datetime.strptime(newest.instant, "%Y%m%d%H%M%S%f"),
        action="commit",
        state="completed",
        operation="upsert",
        rows_inserted=0,
        rows_updated=1,
        rows_deleted=0,
        files_written=1,
        bytes_written=table.files("berlin")[0].size_bytes,
    )
    assert list(table.history(limit=0)) == []


def test_history_shows_a_write_that_did_not_finish(table: Table) -> None:
    Path(table.path, ".hoodie", "29990101000000000.commit.requested").touch()
    entry = table.history()[0]
    assert (entry.action, entry.state, entry.operation, entry.rows_inserted) == ("commit", "requested", None, None)
    assert "requested" in str(table.history())
    assert "completed" not in str(table.history(limit=0))


def test_files_are_the_current_ones_with_their_rows(spark: Any, table: Table) -> None:
    table.delete(trips(spark, SIX[0]))
    table.insert(trips(spark, ("g", "berlin", 7, 7.5), ("h", "berlin", 8, 8.5)))
    assert [(f.partition, f.rows) for f in table.files()] == [("berlin", 3), ("paris", 2), ("tokyo", 2)]
    assert all(Path(f.path).stat().st_size == f.size_bytes for f in table.files())


def test_the_row_count_of_a_file_is_unknown_when_its_commit_is_missing(spark: Any, table: Table) -> None:
    (first,) = table.history()
    table.upsert(trips(spark, SIX[0]))
    for file in Path(table.path, ".hoodie").glob(f"{first.instant}.*"):
        file.unlink()
    assert [(f.partition, f.rows) for f in table.files()] == [("berlin", 2), ("paris", None), ("tokyo", None)]


def test_reports_become_arrow_and_pandas(table: Table) -> None:
    files = table.files()
    assert files.to_arrow().column_names == list(DataFile.__dataclass_fields__)
    assert files.to_arrow()["rows"].to_pylist() == [2, 2, 2]
    assert table.history().to_arrow().column_names == list(HistoryEntry.__dataclass_fields__)
    assert table.history().to_pandas()["operation"].tolist() == ["insert"]
    assert table.files("atlantis").to_arrow().schema == files.to_arrow().schema


def test_reports_print_as_tables(spark: Any, table: Table) -> None:
    table.upsert(trips(spark, ("<b>", "berlin", 1, 1.0)))
    title, head, line, *rows = str(table.files()).splitlines()
    assert title == "Files of trips"
    assert head.split() == ["partition", "file", "group", "written", "at", "rows", "size"]
    assert set(line) == {"─"}
    assert [row.split()[0] for row in rows] == ["berlin", "paris", "tokyo"]
    assert max(map(len, rows)) <= len(line)
    assert repr(table.history()) == str(table.history())
    page = table.history()._repr_html_()
    assert page.count("<tr>") == 3
    assert "upsert" in page


def test_a_commit_prints_as_one_line(spark: Any, table: Table) -> None:
    commit = table.upsert(trips(spark, ("a", "berlin", 9, 9.5)))
    assert repr(commit).startswith(f"Commit({commit.instant} upsert: 1 updated; 1 file, ")
    assert "no row changed" in repr(table.delete(values(spark, "id string, city string", ("nobody", "berlin"))))
    assert "<td" in commit._repr_html_()
    assert isinstance(commit, penstock.Commit)


def test_a_table_prints_its_name_and_keys(table: Table) -> None:
    assert repr(table) == f"Table({table.path!r}, name='trips', record_key='id', partition_by='city')"

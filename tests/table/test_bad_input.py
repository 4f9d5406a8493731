"""Wrong input is refused with its own error, and the table on disk stays as it was."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import CorruptFile, OptionError, PenstockError, RecordKeyError, SchemaError, TableNotFound, Unsupported
from penstock.formats.properties import write_properties
from tests.table.tables import (
    BULK,
    INSERT,
    KEY,
    NAME,
    OPERATION,
    ORDERING,
    PARTITION,
    SIX,
    TRIPS,
    load,
    properties,
    snapshot,
    state_of,
    timeline,
    trips,
    values,
    write,
)


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("made") / "table")
    write(trips(spark, *SIX).coalesce(1), path)
    return path


def refused(table: str, kind: type[PenstockError], match: str, action: Callable[[], Any]) -> None:
    """Check that the action raises this error and leaves the table as it is."""
    before = state_of(table)
    with pytest.raises(kind, match=match):
        action()
    assert state_of(table) == before


ROW = ("y", "berlin", 8, 0.5)


@pytest.mark.parametrize("options", [BULK, INSERT, TRIPS], ids=["bulk_insert", "insert", "upsert"])
@pytest.mark.parametrize("key", [None, ""], ids=["null", "empty"])
def test_a_row_without_a_key_is_refused(spark: Any, table: str, options: dict[str, str], key: str | None) -> None:
    rows = trips(spark, ROW, (key, "new", 9, 0.5))
    refused(
        table,
        RecordKeyError,
        r'recordKey value: ".*" for field: "id" cannot be null or empty',
        lambda: write(rows, table, options),
    )


TAKEN = (
    "_penstock_key",
    "_penstock_path",
    "_Penstock_arrival",
    "__penstock_row",
    "_HOODIE_COMMIT_TIME",
    "_hoodie_Record_Key",
    "_hoodie_commit_time_number",
    "_hoodie_partition_path_number",
    "_hoodie_file_name_number",
    "_hoodie_record_key_is_key",
)


@pytest.mark.parametrize("name", TAKEN)
def test_a_column_with_the_name_of_an_internal_column_is_refused(spark: Any, table: str, tmp_path: Path, name: str) -> None:
    rows = trips(spark, ROW).selectExpr("*", f"'x' as {name}")
    for options in (BULK, INSERT, TRIPS, {**TRIPS, OPERATION: "delete"}):
        refused(
            table, SchemaError, f"column '{name}' has a name .* rename it", lambda options=options: write(rows, table, options)
        )
    with pytest.raises(SchemaError, match=name):
        write(rows, str(tmp_path / "never"))
    with pytest.raises(SchemaError, match=name):
        penstock.Table.create(str(tmp_path / "never"), rows.schema, name="never", record_key="id", spark=spark)
    assert not (tmp_path / "never").exists()


def test_a_meta_column_in_another_case_is_refused_together_with_the_meta_columns(spark: Any, table: str) -> None:
    """Spark would drop it with them."""
    rows = load(spark, table).toDF(*(c.upper() if c == "_hoodie_file_name" else c for c in load(spark, table).columns))
    refused(table, SchemaError, "column '_HOODIE_FILE_NAME'", lambda: write(rows, table, INSERT))
    write(load(spark, table).where("id = 'a'"), table, TRIPS)
    assert snapshot(spark, table) == list(SIX)


def test_a_null_key_of_another_type_than_text_is_refused(spark: Any, table_path: str) -> None:
    frame = values(spark, "id int, city string", (1, "x"), (None, "x"))
    with pytest.raises(RecordKeyError, match='recordKey value: "null" for field: "id"'):
        write(frame, table_path, {NAME: "t", KEY: "id", OPERATION: "bulk_insert"})
    assert not Path(table_path).exists()


def test_a_key_of_several_columns_needs_at_least_one_value(spark: Any, table_path: str) -> None:
    frame = values(spark, "a string, b string", ("1", None), (None, ""))
    with pytest.raises(RecordKeyError, match="cannot be entirely null or empty"):
        write(frame, table_path, {NAME: "t", KEY: "a,b", OPERATION: "bulk_insert"})
    assert not Path(table_path).exists()


@pytest.mark.parametrize("option", [KEY, PARTITION])
def test_a_missing_column_of_key_or_path_is_named(spark: Any, table_path: str, option: str) -> None:
    with pytest.raises(SchemaError, match="'cty'.*Nearest: 'city'"):
        write(trips(spark, *SIX), table_path, {**BULK, option: "cty"})
    assert not Path(table_path).exists()


@pytest.mark.parametrize("column", ["id", "city"])
def test_rows_without_the_tables_key_or_path_are_refused(spark: Any, table: str, column: str) -> None:
    rows = trips(spark, ROW).drop(column)
    refused(table, SchemaError, column, lambda: write(rows, table, {OPERATION: "bulk_insert"}))


def test_a_missing_ordering_column_is_named(spark: Any, table: str) -> None:
    rows = trips(spark, ROW).drop("ts")
    refused(table, SchemaError, "ts", lambda: write(rows, table, {OPERATION: "upsert"}))


def test_a_column_that_is_there_twice_is_refused(spark: Any, table: str) -> None:
    rows = trips(spark, ROW)
    twice = rows.select("*", rows.fare)
    refused(table, SchemaError, "fare", lambda: write(twice, table))
    refused(table, SchemaError, "fare", lambda: write(rows.selectExpr("*", "fare as FARE"), table))


def test_a_column_used_twice_for_the_key_is_refused(spark: Any, table_path: str) -> None:
    for option in (KEY, PARTITION):
        with pytest.raises(OptionError, match="named twice"):
            write(trips(spark, ROW), table_path, {**BULK, option: "id,id"})
    assert not Path(table_path).exists()


def test_a_delete_flag_that_is_not_boolean_is_refused(spark: Any, table: str) -> None:
    rows = trips(spark, ROW).selectExpr("*", "'yes' as _hoodie_is_deleted")
    refused(table, SchemaError, "_hoodie_is_deleted has to be BOOLEAN", lambda: write(rows, table))


# --- paths


def test_a_path_that_is_no_table_is_not_read(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file.parquet").write_bytes(b"x")
    before = state_of(tmp_path)
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "file.parquet"):
        with pytest.raises(TableNotFound, match="not a Hudi table"):
            load(spark, str(path))
    assert state_of(tmp_path) == before


def test_a_path_below_a_file_cannot_become_a_table(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    before = state_of(tmp_path)
    with pytest.raises(PenstockError):
        write(trips(spark, ROW), str(tmp_path / "file" / "table"))
    with pytest.raises(PenstockError):
        write(trips(spark, ROW), str(tmp_path / "file"))
    assert state_of(tmp_path) == before


def test_a_path_that_is_a_file_is_named(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "trips.parquet"
    file.write_bytes(b"x")
    message = f"{file} is a file, and a table is a folder; choose another path"
    for path in (file, file / "table", file / "deep" / "table"):
        for mode in ("append", "overwrite", "ignore", "error"):
            refused(str(tmp_path), OptionError, message, lambda p=path, m=mode: write(trips(spark, ROW), str(p), BULK, m))
        create = partial(penstock.Table.create, str(path), trips(spark, ROW), name="t", record_key="id", spark=spark)
        refused(str(tmp_path), OptionError, message, create)
    for read in (lambda: load(spark, str(file)), lambda: penstock.Table.open(str(file))):
        refused(str(tmp_path), TableNotFound, f"{file} is a file, not a Hudi table; pass the folder of a table", read)


def test_changes_since_nothing_are_refused(spark: Any, table: str) -> None:
    for since in (None, ""):
        with pytest.raises(OptionError, match=f"since is {since!r}; give an instant of the table, .* '000' for all changes"):
            penstock.Table.open(table).read_changes(since=since)  # type: ignore[arg-type]


def test_an_empty_list_of_columns_is_refused(spark: Any, table: str, tmp_path: Path) -> None:
    handle = penstock.Table.open(table, spark=spark)
    for read in (handle.read, partial(handle.read_changes, "000")):
        with pytest.raises(OptionError, match="columns is empty; name the columns that you want, or leave it out to get all"):
            read(columns=[])
        with pytest.raises(OptionError, match=r"columns is the string 'fare'; give a list of names, such as \['fare'\]"):
            read(columns="fare")
    new = str(tmp_path / "new")
    for key in ([], "", ()):
        with pytest.raises(OptionError, match=r"record_key is .*; name the columns that identify a row, or pass None"):
            penstock.Table.create(new, trips(spark, ROW), name="t", record_key=key, spark=spark)
    with pytest.raises(SchemaError, match="the rows have no columns; select the columns that the table needs"):
        write(trips(spark, ROW).select(), new)
    assert not Path(new).exists()


def test_a_storage_that_is_not_supported_is_named(spark: Any) -> None:
    with pytest.raises(Unsupported, match="no storage serves ftp://.*abfs.*s3a"):
        write(trips(spark, ROW), "ftp://host/table")
    with pytest.raises(Unsupported, match="no storage serves ftp://"):
        load(spark, "ftp://host/table")


# --- damaged tables


def both_ways(spark: Any, table: str, kind: type[PenstockError], match: str) -> None:
    """Check that neither reading nor writing succeeds on a damaged table, and that neither changes it."""
    refused(table, kind, match, lambda: load(spark, table))
    for options in (BULK, INSERT):
        refused(table, kind, match, lambda: write(trips(spark, ROW), table, options))


@pytest.mark.parametrize("content", [b"", b"\x00\xff garbage", b"hoodie.table.version=6\n"], ids=["empty", "garbage", "nameless"])
def test_damaged_properties_stop_everything(spark: Any, table: str, content: bytes) -> None:
    Path(table, ".hoodie", "hoodie.properties").write_bytes(content)
    both_ways(spark, table, CorruptFile, r"hoodie\.properties")


def test_a_wrong_checksum_stops_everything(spark: Any, table: str) -> None:
    changed = {**properties(table), "hoodie.table.name": "other"}
    Path(table, ".hoodie", "hoodie.properties").write_bytes(write_properties(changed, "c", "d"))
    both_ways(spark, table, CorruptFile, r"hoodie\.table\.checksum")


def test_lost_properties_stop_everything(spark: Any, table: str) -> None:
    Path(table, ".hoodie", "hoodie.properties").unlink()
    both_ways(spark, table, CorruptFile, r"hoodie\.properties")


@pytest.mark.parametrize("version", ["8", "9", "5"])
def test_another_table_version_stops_everything(spark: Any, table: str, version: str) -> None:
    changed = {**properties(table), "hoodie.table.version": version}
    Path(table, ".hoodie", "hoodie.properties").write_bytes(write_properties(changed, "c", "d"))
    both_ways(spark, table, Unsupported, f"table version {version}")


@pytest.mark.parametrize("content", [b"", b'{"partitionToWriteStats" : {'], ids=["zero bytes", "torn"])
def test_a_damaged_commit_stops_everything(spark: Any, table: str, content: bytes) -> None:
    name = timeline(table)[0]
    Path(table, ".hoodie", name).write_bytes(content)
    both_ways(spark, table, CorruptFile, name.replace(".", r"\."))


def test_a_base_file_that_is_gone_or_damaged_stops_an_insert_into_it(spark: Any, table: str) -> None:
    file = next(p for p in Path(table, "berlin").iterdir() if p.suffix == ".parquet")
    content = file.read_bytes()
    file.write_bytes(content[:100])
    refused(table, CorruptFile, file.name, lambda: write(trips(spark, ROW), table, INSERT))
    file.write_bytes(b"")
    refused(table, CorruptFile, file.name, lambda: write(trips(spark, ROW), table, INSERT))
    file.write_bytes(content)
    write(trips(spark, ROW), table, INSERT)
    assert len(snapshot(spark, table)) == 7


# --- options


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({OPERATION: "merge"}, OptionError, r"hoodie\.datasource\.write\.operation.*upsert"),
        ({OPERATION: "bootstrap"}, Unsupported, "bootstrap"),
        ({"hoodie.parquet.max.file.size": "big"}, OptionError, r"hoodie\.parquet\.max\.file\.size.*whole number"),
        ({"hoodie.bulkinsert.sort.mode": "SOMEHOW"}, OptionError, "GLOBAL_SORT"),
        ({"hoodie.parquet.compression.codec": "lzo"}, Unsupported, "lzo"),
        ({"hoodie.datasource.write.keygenerator.class": "com.example.Mine"}, Unsupported, r"com\.example\.Mine"),
        ({"hoodie.table.cdc.enabled": "true"}, Unsupported, "cdc"),
        ({KEY: None, OPERATION: "upsert"}, OptionError, "key"),
    ],
)
def test_an_option_that_is_not_supported_is_refused_with_its_name(
    spark: Any, table_path: str, options: dict[str, Any], kind: type[PenstockError], match: str
) -> None:
    given = {k: v for k, v in {**BULK, **options}.items() if v is not None}
    with pytest.raises(kind, match=match):
        write(trips(spark, ROW), table_path, given)
    assert not Path(table_path).exists()


def test_an_unknown_option_is_warned_about_with_the_most_similar_one(spark: Any, table_path: str) -> None:
    with pytest.warns(UserWarning, match=r"did you mean 'hoodie\.parquet\.max\.file\.size'"):
        write(trips(spark, ROW), table_path, {**BULK, "hoodie.parquet.max.filesize": "5"})


@pytest.mark.parametrize("key", ["hoodie.parquet.max.filesize", "datasource.write.operation", "timestampAsOf"])
def test_a_warning_about_an_option_points_at_the_users_line(spark: Any, table: str, key: str) -> None:
    """Also where PySpark's frames are between, and from a method of Table."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trips(spark, ROW).write.format("hudi").options(**BULK).option(key, "5").mode("append").save(table)
        spark.read.format("hudi").option(key, "5").load(table)
        penstock.Table.open(table).insert(trips(spark, ROW), options={key: "5"})
    unknown = [warning for warning in caught if f"unknown option '{key}'" in str(warning.message)]
    assert {warning.filename for warning in unknown} == {__file__}
    assert len({warning.lineno for warning in unknown}) == 3


def test_a_query_type_that_does_not_exist_is_refused(spark: Any, table: str) -> None:
    with pytest.raises(OptionError, match="allowed: snapshot"):
        load(spark, table, **{"hoodie.datasource.query.type": "all"})


def test_a_schema_for_reading_is_refused(spark: Any, table: str) -> None:
    with pytest.raises(OptionError, match="select"):
        spark.read.format("hudi").schema("id string").load(table)


def test_save_as_table_insert_into_and_bucket_by_are_refused(spark: Any, table_path: str) -> None:
    writer = trips(spark, ROW).write.format("hudi").options(**BULK)
    with pytest.raises(Unsupported, match="saveAsTable"):
        writer.saveAsTable("trips")
    with pytest.raises(Unsupported, match="insertInto"):
        trips(spark, ROW).write.format("hudi").insertInto("trips")
    with pytest.raises(OptionError, match="bucketBy"):
        trips(spark, ROW).write.format("hudi").options(**BULK).bucketBy(2, "id").save(table_path)
    assert not Path(table_path).exists()


# --- nothing that a table names is ever loaded


def test_classes_that_a_table_names_are_never_loaded(
    spark: Any, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('loaded')\nclass Payload: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    changed = {
        **properties(table),
        "hoodie.table.keygenerator.class": "evil.Payload",
        "hoodie.compaction.payload.class": "evil:Payload",
    }
    Path(table, ".hoodie", "hoodie.properties").write_bytes(write_properties(changed, "c", "d"))
    assert snapshot(spark, table) == [*SIX]
    refused(table, Unsupported, "evil", lambda: write(trips(spark, ROW), table, {OPERATION: "bulk_insert"}))


def test_a_table_whose_ordering_column_cannot_be_compared_accepts_inserts(spark: Any, table_path: str) -> None:
    frame = spark.sql("select 'a' id, map('k', 1) ts")
    write(frame, table_path, {NAME: "t", KEY: "id", OPERATION: "bulk_insert", ORDERING: "ts"})
    assert load(spark, table_path).count() == 1


@pytest.mark.parametrize("payload", ["SomeBodysPayload", "RewriteAvroPayload", "HoodieMetadataPayload"])
def test_an_unsupported_payload_of_a_table_is_refused(spark: Any, table: str, payload: str) -> None:
    """It would be merged by other rules than the table's."""
    changed = {**properties(table), "hoodie.compaction.payload.class": f"org.apache.hudi.common.model.{payload}"}
    Path(table, ".hoodie", "hoodie.properties").write_bytes(write_properties(changed, "c", "d"))
    for operation in ("upsert", "insert"):
        refused(table, Unsupported, payload, lambda: write(trips(spark, ROW), table, {OPERATION: operation}))

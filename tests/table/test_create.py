"""Creation of tables: the files in their folder, save modes, and options that contradict a table."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import OptionError, RecordKeyError, TableExists, TableNotFound
from tests.table.tables import (
    BULK,
    HIVE_STYLE,
    INSERT,
    KEY,
    NAME,
    OPERATION,
    ORDERING,
    PARTITION,
    SIX,
    TRIPS,
    URL_ENCODE,
    commits,
    load,
    properties,
    snapshot,
    state_of,
    timeline,
    trips,
    values,
    write,
)

ALWAYS = {
    "hoodie.archivelog.folder": "archived",
    "hoodie.database.name": "",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
    "hoodie.partition.metafile.use.base.format": "false",
    "hoodie.populate.meta.fields": "true",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.cdc.enabled": "false",
    "hoodie.table.checksum": str(zlib.crc32(b".trips")),
    "hoodie.table.name": "trips",
    "hoodie.table.timeline.timezone": "LOCAL",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
}
KEYGEN = "hoodie.table.keygenerator.class"
CLASS = "hoodie.datasource.write.keygenerator.class"
PACKAGE = "org.apache.hudi.keygen"
META_FIELDS = "hoodie.populate.meta.fields"


# --- what a new table holds


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (
            {},
            {
                KEYGEN: f"{PACKAGE}.SimpleKeyGenerator",
                "hoodie.table.precombine.field": "ts",
                "hoodie.table.partition.fields": "city",
                "hoodie.table.recordkey.fields": "id",
            },
        ),
        (
            {KEY: None, PARTITION: None, ORDERING: None},
            {KEYGEN: f"{PACKAGE}.NonpartitionedKeyGenerator", "hoodie.table.partition.fields": ""},
        ),
        (
            {
                KEY: "id,ts",
                PARTITION: "city,id",
                ORDERING: None,
                HIVE_STYLE: "true",
                URL_ENCODE: True,
                "hoodie.database.name": "db",
                "hoodie.table.timeline.timezone": "UTC",
                "hoodie.datasource.write.drop.partition.columns": "true",
            },
            {
                KEYGEN: f"{PACKAGE}.ComplexKeyGenerator",
                "hoodie.database.name": "db",
                "hoodie.datasource.write.drop.partition.columns": "true",
                "hoodie.datasource.write.hive_style_partitioning": "true",
                "hoodie.datasource.write.partitionpath.urlencode": "true",
                "hoodie.table.checksum": str(zlib.crc32(b"db.trips")),
                "hoodie.table.partition.fields": "city,id",
                "hoodie.table.recordkey.fields": "id,ts",
                "hoodie.table.timeline.timezone": "UTC",
            },
        ),
        (
            {
                PARTITION: "ts",
                CLASS: f"{PACKAGE}.TimestampBasedKeyGenerator",
                "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
                "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
                "hoodie.keygen.timebased.timezone": "UTC",
            },
            {
                KEYGEN: f"{PACKAGE}.TimestampBasedKeyGenerator",
                "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
                "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
                "hoodie.keygen.timebased.timezone": "UTC",
                "hoodie.table.partition.fields": "ts",
                "hoodie.table.precombine.field": "ts",
                "hoodie.table.recordkey.fields": "id",
            },
        ),
        (
            {PARTITION: "city:SIMPLE", CLASS: f"{PACKAGE}.CustomKeyGenerator", ORDERING: None},
            {
                KEYGEN: f"{PACKAGE}.CustomKeyGenerator",
                "hoodie.table.partition.fields": "city",
                "hoodie.table.recordkey.fields": "id",
            },
        ),
    ],
    ids=["simple", "keyless", "complex", "timestamp", "custom"],
)
def test_the_properties_of_a_new_table_are_those_of_hudi(
    spark: Any, table_path: str, options: dict[str, Any], more: dict[str, str]
) -> None:
    given = {k: v for k, v in {**BULK, **options}.items() if v is not None}
    write(trips(spark, SIX[0]), table_path, given)
    assert properties(table_path) == {**ALWAYS, **more}


def test_a_new_table_has_the_folders_that_hudi_makes(made: str) -> None:
    folders = {str(p.relative_to(made)) for p in Path(made, ".hoodie").rglob("*") if p.is_dir()}
    assert {
        f".hoodie/{n}" for n in (".schema", "archived", ".temp", ".aux/.bootstrap/.partitions", ".aux/.bootstrap/.fileids")
    } <= folders
    assert list(Path(made, ".hoodie", ".temp").iterdir()) == []


def test_a_first_write_leaves_three_files_of_one_instant(made: str) -> None:
    names = timeline(made)
    (time,) = {n.split(".")[0] for n in names}
    assert names == [f"{time}.commit", f"{time}.commit.requested", f"{time}.inflight"]
    assert len(time) == 17
    assert [Path(made, ".hoodie", n).stat().st_size for n in names[1:]] == [0, 0]


def test_every_partition_has_its_metafile(made: str) -> None:
    time = timeline(made)[0].split(".")[0]
    found = {p.parent.name: p.read_text().splitlines() for p in Path(made).rglob(".hoodie_partition_metadata")}
    assert sorted(found) == ["berlin", "paris", "tokyo"]
    for lines in found.values():
        assert lines[0] == "#partition metadata"
        assert lines[1].startswith("#")
        assert sorted(lines[2:]) == [f"commitTime={time}", "partitionDepth=1"]


def test_a_table_without_partitions_has_its_metafile_at_the_base(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, {NAME: "t", KEY: "id", OPERATION: "bulk_insert"})
    assert "partitionDepth=0" in Path(table_path, ".hoodie_partition_metadata").read_text()
    assert snapshot(spark, table_path) == [*SIX]
    assert {row[0] for row in load(spark, table_path).select("_hoodie_partition_path").collect()} == {""}
    assert list(commits(table_path)[0]["partitionToWriteStats"]) == [""]


def test_options_with_the_prefix_go_into_the_commit(spark: Any, table_path: str) -> None:
    write(trips(spark, SIX[0]), table_path, {**BULK, "_job": "nightly", "_n": 7, "other": "x"})
    extra = commits(table_path)[0]["extraMetadata"]
    assert {k: v for k, v in extra.items() if k.startswith("_")} == {"_job": "nightly", "_n": "7"}
    assert set(extra) == {"_job", "_n", "schema", "penstock.stages", "penstock.index"}


def test_writing_no_rows_makes_an_empty_table_with_a_schema(spark: Any, table_path: str) -> None:
    write(trips(spark), table_path)
    assert snapshot(spark, table_path) == []
    assert load(spark, table_path).columns[5:] == ["id", "city", "ts", "fare"]
    assert commits(table_path)[0]["partitionToWriteStats"] == {}


# --- save modes


def test_append_adds_rows(spark: Any, table: str) -> None:
    write(trips(spark, ("g", "rome", 7, 7.5)), table)
    assert snapshot(spark, table) == [*SIX, ("g", "rome", 7, 7.5)]


def test_a_later_write_takes_missing_options_from_the_table(spark: Any, table: str) -> None:
    write(trips(spark, ("g", "rome", 7, 7.5)), table, {OPERATION: "bulk_insert"})
    write(trips(spark, ("h", "rome", 8, 8.5)), table, {OPERATION: "insert"})
    keys = load(spark, table).where("city = 'rome'").select("_hoodie_record_key", "_hoodie_partition_path").collect()
    assert sorted(map(tuple, keys)) == [("g", "rome"), ("h", "rome")]
    assert properties(table)["hoodie.table.name"] == "trips"


def test_ignore_leaves_an_existing_table_unchanged_without_a_warning(spark: Any, table: str) -> None:
    before = state_of(table)
    write(trips(spark, ("g", "rome", 7, 7.5)), table, mode="ignore")
    assert state_of(table) == before


def test_ignore_creates_a_missing_table(spark: Any, table_path: str) -> None:
    write(trips(spark, SIX[0]), table_path, mode="ignore")
    assert snapshot(spark, table_path) == [SIX[0]]


@pytest.mark.parametrize("mode", ["error", "errorifexists", None])
def test_error_refuses_an_existing_table(spark: Any, table: str, mode: str | None) -> None:
    before = state_of(table)
    writer = trips(spark, SIX[0]).write.format("hudi").options(**BULK)
    with pytest.raises(TableExists, match=r"already exists; use mode\('append'\)"):
        (writer.mode(mode) if mode else writer).save(table)
    assert state_of(table) == before


def test_error_creates_a_missing_table(spark: Any, table_path: str) -> None:
    trips(spark, SIX[0]).write.format("hudi").options(**BULK).save(table_path)
    assert snapshot(spark, table_path) == [SIX[0]]


def test_overwrite_may_change_the_kind_of_a_table(spark: Any, table: str) -> None:
    Path(table, "stray").write_text("x")
    options = {NAME: "other", KEY: "ts", OPERATION: "bulk_insert", "penstock.other.files": "allow"}
    write(trips(spark, ("z", "rome", 1, 0.5)), table, options, mode="overwrite")
    assert snapshot(spark, table) == [("z", "rome", 1, 0.5)]
    assert properties(table)["hoodie.table.name"] == "other"
    assert properties(table)["hoodie.table.partition.fields"] == ""
    assert len(timeline(table)) == 3
    assert not Path(table, "stray").exists()
    assert not Path(table, "berlin").exists()
    assert [p.name for p in Path(table).parent.iterdir()] == [Path(table).name]


def test_an_overwrite_that_fails_leaves_the_old_table(spark: Any, table: str) -> None:
    before = state_of(table)
    with pytest.raises(RecordKeyError):
        write(trips(spark, ("z", "rome", 1, 0.5), (None, "rome", 1, 0.5)), table, mode="overwrite")
    assert state_of(table) == before
    assert [p.name for p in Path(table).parent.iterdir()] == [Path(table).name]


def test_a_table_may_be_overwritten_with_its_own_rows(spark: Any, table: str) -> None:
    write(load(spark, table).where("city <> 'paris'"), table, mode="overwrite")
    assert snapshot(spark, table) == [*SIX[:2], *SIX[4:]]


def test_a_table_may_be_appended_to_with_its_own_rows(spark: Any, table: str) -> None:
    write(load(spark, table).where("city = 'paris'"), table, INSERT)
    assert snapshot(spark, table) == sorted([*SIX, *SIX[2:4]])


def test_an_overwrite_of_a_folder_that_is_no_table_keeps_its_files(spark: Any, table_path: str) -> None:
    Path(table_path).mkdir()
    Path(table_path, "notes.txt").write_text("mine")
    write(trips(spark, SIX[0]), table_path, mode="overwrite")
    assert snapshot(spark, table_path) == [SIX[0]]
    assert Path(table_path, "notes.txt").read_text() == "mine"


def test_a_delete_needs_a_table_and_append(spark: Any, table: str, table_path: str) -> None:
    before = state_of(table)
    options = {**TRIPS, OPERATION: "delete"}
    with pytest.raises(OptionError, match="Append is the only save mode"):
        write(trips(spark, SIX[0]), table, options, mode="overwrite")
    with pytest.raises(TableNotFound, match="does not exist"):
        write(trips(spark, SIX[0]), table_path + "-none", options)
    assert state_of(table) == before
    assert not Path(table_path + "-none").exists()


# --- conflicts with a table's configuration


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({META_FIELDS: "false"}, f"{META_FIELDS}:\tfalse\ttrue"),
        ({HIVE_STYLE: "true"}, f"{HIVE_STYLE}:\ttrue\tfalse"),
        ({URL_ENCODE: "true"}, f"{URL_ENCODE}:\ttrue\tfalse"),
        ({"hoodie.table.timeline.timezone": "UTC"}, "hoodie.table.timeline.timezone:\tUTC\tLOCAL"),
        ({"hoodie.database.name": "db"}, "hoodie.database.name:\tdb\t"),
        ({KEY: "ts"}, "RecordKey:\tts\tid"),
        ({KEY: "id,ts"}, "RecordKey:\tid,ts\tid"),
        ({ORDERING: "fare"}, "PreCombineKey:\tfare\tts"),
        (
            {CLASS: f"{PACKAGE}.ComplexKeyGenerator"},
            f"KeyGenerator:\t{PACKAGE}.ComplexKeyGenerator\t{PACKAGE}.SimpleKeyGenerator",
        ),
        ({PARTITION: "id"}, "PartitionPath:\tid\tcity"),
        ({PARTITION: "city,id"}, "PartitionPath:\tcity,id\tcity"),
    ],
)
def test_an_option_that_contradicts_the_table_is_refused(spark: Any, table: str, options: dict[str, str], line: str) -> None:
    before = state_of(table)
    with pytest.raises(OptionError) as error:
        write(trips(spark, SIX[0]), table, {**BULK, **options})
    assert str(error.value).splitlines()[:2] == ["Config conflict(key\tcurrent value\texisting value):", line]
    assert state_of(table) == before


def test_all_contradictions_are_reported_at_once(spark: Any, table: str) -> None:
    with pytest.raises(OptionError) as error:
        write(trips(spark, SIX[0]), table, {**BULK, KEY: "ts", ORDERING: "fare", PARTITION: "id", HIVE_STYLE: "true"})
    lines = str(error.value).splitlines()
    assert [line.split(":")[0] for line in lines[1:5]] == [HIVE_STYLE, "RecordKey", "PreCombineKey", "PartitionPath"]


def test_another_table_name_is_refused(spark: Any, table: str) -> None:
    before = state_of(table)
    with pytest.raises(TableExists, match=r"hoodie table with name trips already exists .* another name drips"):
        write(trips(spark, SIX[0]), table, {**BULK, NAME: "drips"})
    assert state_of(table) == before


def test_values_that_differ_in_case_and_blanks_only_are_no_conflict(spark: Any, table: str) -> None:
    write(trips(spark, ("g", "rome", 7, 7.5)), table, {**BULK, NAME: " TRIPS ", HIVE_STYLE: "False", PARTITION: " city "})
    assert len(snapshot(spark, table)) == 7
    assert properties(table)["hoodie.table.name"] == "trips"


def test_another_table_type_is_refused(spark: Any, table: str) -> None:
    before = state_of(table)
    with pytest.raises(OptionError, match="table.type:\tMERGE_ON_READ\tCOPY_ON_WRITE"):
        write(trips(spark, SIX[0]), table, {**BULK, "hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    assert state_of(table) == before


def test_a_table_with_generated_keys_gets_no_key_by_option(spark: Any, table_path: str) -> None:
    write(trips(spark, SIX[0]), table_path, {NAME: "t"})
    before = state_of(table_path)
    with pytest.raises(OptionError, match="RecordKey:\tid\t"):
        write(trips(spark, SIX[1]), table_path, {NAME: "t", KEY: "id", OPERATION: "bulk_insert"})
    with pytest.raises(OptionError, match="KeyGenerator:\t.*SimpleKeyGenerator"):
        write(trips(spark, SIX[1]), table_path, {NAME: "t", CLASS: f"{PACKAGE}.SimpleKeyGenerator"})
    assert state_of(table_path) == before


def test_a_table_without_meta_fields_stays_without(spark: Any, table_path: str) -> None:
    write(trips(spark, SIX[0]), table_path, {**BULK, META_FIELDS: "false"})
    before = state_of(table_path)
    with pytest.raises(OptionError, match="Can't be re-enabled"):
        write(trips(spark, SIX[1]), table_path, {**BULK, META_FIELDS: "true"})
    assert state_of(table_path) == before
    write(trips(spark, SIX[1]), table_path)
    assert snapshot(spark, table_path) == [*SIX[:2]]


def test_types_of_a_custom_key_generator_are_not_compared(spark: Any, table_path: str) -> None:
    options = {**BULK, PARTITION: "city:simple,ts:TIMESTAMP", CLASS: f"{PACKAGE}.CustomKeyGenerator"}
    time = {
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    write(trips(spark, SIX[0]), table_path, {**options, **time})
    write(trips(spark, SIX[1]), table_path, options)
    assert sorted(p.parent.relative_to(table_path).as_posix() for p in Path(table_path).rglob("*.parquet")) == ["berlin/1970"] * 2
    assert snapshot(spark, table_path) == [*SIX[:2]]


def test_a_table_name_is_needed_for_a_new_table(spark: Any, table_path: str) -> None:
    with pytest.raises(OptionError, match=r"hoodie\.table\.name"):
        write(trips(spark, SIX[0]), table_path, {KEY: "id", OPERATION: "bulk_insert"})
    assert not Path(table_path).exists()


def test_a_path_is_needed(spark: Any) -> None:
    with pytest.raises(OptionError, match="'path' must be set"):
        trips(spark, SIX[0]).write.format("hudi").options(**BULK).mode("append").save()


def test_meta_columns_of_the_incoming_rows_are_dropped(spark: Any, table_path: str) -> None:
    frame = values(spark, "id string, city string, ts bigint, _hoodie_commit_time string", ("a", "x", 1, "mine"))
    write(frame, table_path)
    row = load(spark, table_path).first()
    assert row["_hoodie_commit_time"] == timeline(table_path)[0].split(".")[0]
    assert "_hoodie_commit_time" not in commits(table_path)[0]["extraMetadata"]["schema"]

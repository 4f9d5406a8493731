"""What a sync changes in a catalog: the entry of the table, and its partitions. No catalog, no files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import CatalogConflict, OptionError
from penstock.options import read_options
from penstock.storage import open_storage
from penstock.sync.catalog import Buckets, CatalogColumn, CatalogPartition, CatalogTable
from penstock.sync.changes import PartitionChanges, SyncPoint
from penstock.sync.hive_types import can_change
from penstock.sync.plan import LAST_COMMIT, plan_partitions, plan_table, read_sync_point, with_sync_point
from penstock.sync.settings import SyncSettings, resolve_sync
from penstock.table.config import TableConfig
from penstock.table.state import TableState

SYNC = "hoodie.datasource.hive_sync."
SCHEMA = """{"type": "record", "name": "trips_record", "namespace": "hoodie.trips", "fields": [
  {"name": "id", "type": ["null", "string"], "default": null, "doc": "the key"},
  {"name": "City", "type": "string"},
  {"name": "n", "type": "int"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
  {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
  {"name": "by", "type": {"type": "map", "values": "long"}},
  {"name": "place", "type": {"type": "record", "name": "place", "fields": [{"name": "Lat", "type": "double"}]}}
]}"""


def settings_of(schema: str = SCHEMA, properties: dict[str, str] | None = None, **options: str) -> SyncSettings:
    config = {"hoodie.table.name": "trips", "hoodie.table.partition.fields": "City", **(properties or {})}
    given = read_options({key.replace("__", "."): value for key, value in options.items()})
    storage, path = open_storage("/data/trips")
    return resolve_sync(TableState(storage, path, TableConfig(config), given), schema, "4.0.0")


def sync_option(name: str, value: str) -> dict[str, str]:
    return {SYNC + name: value}


def table_of(schema: str = SCHEMA, properties: dict[str, str] | None = None, **options: str) -> CatalogTable:
    settings = settings_of(schema, properties, **options)
    return settings.table_of(settings.views[-1])


def columns_of(table: CatalogTable) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}


def test_columns_have_hive_types_and_lower_case_names_and_partition_columns_are_apart() -> None:
    table = table_of()
    assert {name: kind for name, kind in columns_of(table).items() if not name.startswith("_hoodie")} == {
        "id": "string",
        "n": "int",
        "at": "bigint",
        "price": "decimal(10,2)",
        "tags": "array<string>",
        "by": "map<string,bigint>",
        "place": "struct<lat:double>",
    }
    assert [column.name for column in table.columns[:2]] == ["_hoodie_commit_time", "_hoodie_commit_seqno"]
    assert table.partition_keys == (CatalogColumn("city", "string"),)


def test_options_decide_on_timestamps_comments_and_meta_columns() -> None:
    options = {**sync_option("support_timestamp", "true"), **sync_option("sync_comment", "true")}
    table = table_of(**options, **sync_option("omit_metadata_fields", "true"))
    assert columns_of(table)["at"] == "timestamp"
    assert table.columns[0] == CatalogColumn("id", "string", "the key")


def test_the_schema_for_spark_is_cut_into_parts_with_the_partition_columns_last() -> None:
    table = table_of(**sync_option("schema_string_length_thresh", "100"))
    count = int(table.properties["spark.sql.sources.schema.numParts"])
    text = "".join(table.properties[f"spark.sql.sources.schema.part.{number}"] for number in range(count))
    assert count > 5
    assert text.endswith('{"name":"City","type":"string","nullable":false,"metadata":{}}]}')
    assert '{"type":"array", "elementType":"string","containsNull":false}' in text
    assert '{"type":"map", "keyType":"string","valueType":"long","valueContainsNull":false}' in text
    assert table.properties["spark.sql.sources.schema.partCol.0"] == "City"
    assert table.properties["spark.sql.create.version"] == "4.0.0"
    assert table.serde_properties == {"path": "/data/trips", "hoodie.query.as.ro.table": "false", "serialization.format": "1"}


def test_without_a_datasource_the_properties_for_spark_are_left_out() -> None:
    table = table_of(**sync_option("sync_as_datasource", "false"), **sync_option("table_properties", "a=b\nc = d"))
    assert table.properties == {"EXTERNAL": "TRUE", "a": "b", "c": "d"}
    assert table.serde_properties == {"serialization.format": "1"}


def test_a_managed_table_is_not_external() -> None:
    assert "EXTERNAL" not in table_of(**sync_option("create_managed_table", "true")).properties


def test_a_property_without_an_equals_sign_is_refused() -> None:
    with pytest.raises(OptionError, match="has the line 'nonsense'"):
        table_of(**sync_option("table_properties", "nonsense"))


def test_buckets_are_registered_if_asked_for() -> None:
    spec = sync_option("bucket_sync_spec", "CLUSTERED BY (`id`, n) SORTED BY (n DESC) INTO 8 BUCKETS")
    assert table_of(**spec).buckets is None
    assert table_of(**spec, **sync_option("bucket_sync", "true")).buckets == Buckets(("id", "n"), 8, (("n", False),))
    with pytest.raises(OptionError, match="bucket_sync_spec"):
        table_of(**sync_option("bucket_sync", "true"))


@pytest.mark.parametrize(
    ("options", "views"),
    [
        ({}, ["trips_ro ro", "trips_rt rt", "trips rt"]),
        ({"hoodie.meta.sync.sync_snapshot_with_table_name": "false"}, ["trips_ro ro", "trips_rt rt"]),
        (sync_option("skip_ro_suffix", "true"), ["trips_rt rt", "trips rt"]),
        (
            {**sync_option("skip_ro_suffix", "true"), "hoodie.meta.sync.sync_snapshot_with_table_name": "false"},
            ["trips ro", "trips_rt rt"],
        ),
        (sync_option("table.strategy", "RO"), ["trips ro"]),
        (sync_option("table.strategy", "RT"), ["trips rt"]),
    ],
)
def test_a_merge_on_read_table_is_registered_under_several_names(options: dict[str, str], views: list[str]) -> None:
    settings = settings_of(properties={"hoodie.table.type": "MERGE_ON_READ"}, **options)
    assert [f"{view.name} {'rt' if view.is_realtime else 'ro'}" for view in settings.views] == views
    for view in settings.views:
        table = settings.table_of(view)
        assert table.serde_properties["hoodie.query.as.ro.table"] == ("false" if view.is_realtime else "true")
        assert ("Realtime" in table.input_format) == view.is_realtime


def test_a_copy_on_write_table_is_registered_once_under_its_name_in_lower_case() -> None:
    settings = settings_of(**sync_option("table", "Trips2"), **sync_option("database", "Sales"))
    assert [view.name for view in settings.views] == ["trips2"]
    assert settings.database == "sales"
    assert settings_of(properties={"hoodie.database.name": "own"}).database == "own"


def test_formatted_times_in_paths_are_registered_as_strings() -> None:
    generator = {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"}
    table = table_of(properties={**generator, "hoodie.table.partition.fields": "at"})
    assert table.partition_keys == (CatalogColumn("at", "string"),)


def test_a_table_that_the_catalog_lacks_is_created() -> None:
    plan = plan_table(table_of(), None)
    assert plan.is_new
    assert plan.table == table_of()


def test_an_entry_that_fits_is_not_changed() -> None:
    assert plan_table(table_of(), table_of()).changes == ()


def test_new_and_widened_columns_are_changed_and_other_properties_and_comments_stay() -> None:
    before = table_of()
    columns = tuple(replace(column, comment="mine") for column in before.columns if column.name != "tags")
    found = replace(before, columns=columns, properties={**before.properties, "owner": "me"})
    wider = SCHEMA.replace('"n", "type": "int"', '"n", "type": "long"')
    plan = plan_table(table_of(wider), found)
    assert plan.changes[:2] == ("column n is bigint", "column tags added")
    assert plan.has_new_columns
    assert plan.table.properties["owner"] == "me"
    assert {column.comment for column in plan.table.columns} == {"mine", ""}


def test_a_column_that_the_table_lost_is_dropped_in_the_catalog() -> None:
    found = replace(table_of(), columns=(*table_of().columns, CatalogColumn("gone", "string")))
    assert plan_table(table_of(), found).changes == ("column gone dropped",)


def test_the_version_that_created_an_entry_stays() -> None:
    found = replace(table_of(), properties={**table_of().properties, "spark.sql.create.version": "3.5.7"})
    assert plan_table(table_of(), found).changes == ()


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ("int", "bigint", True),
        ("float", "double", True),
        ("bigint", "int", False),
        ("int", "string", False),
        ("struct<a:int>", "struct<a:int,b:string>", True),
        ("DECIMAL(10 , 2)", "decimal(10,2)", True),
        ("decimal(10,2)", "decimal(12,2)", False),
    ],
)
def test_only_changes_that_hive_allows_are_made(before: str, after: str, allowed: bool) -> None:
    assert can_change(before, after) == allowed


def test_a_type_that_cannot_be_changed_is_refused_with_the_column_and_both_types() -> None:
    text = SCHEMA.replace('"n", "type": "int"', '"n", "type": "string"')
    with pytest.raises(CatalogConflict, match="column 'n' of table 'trips' is int in the catalog and string in the table"):
        plan_table(table_of(text), table_of())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"location": "s3://elsewhere/trips"}, "is at s3://elsewhere/trips, not at file:/data/trips"),
        ({"input_format": "org.apache.hadoop.mapred.TextInputFormat", "properties": {}}, "is no Hudi table"),
        ({"partition_keys": (CatalogColumn("country", "string"),)}, "is partitioned by"),
    ],
)
def test_an_entry_of_another_table_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(CatalogConflict, match=message):
        plan_table(table_of(), replace(table_of(), **change))  # type: ignore[arg-type]


def test_an_entry_at_the_same_path_of_another_bucket_is_refused_and_another_scheme_of_s3_is_not() -> None:
    ours = table_of(**{"hoodie.datasource.meta.sync.base.path": "s3a://lake/trips"})
    with pytest.raises(CatalogConflict, match="is at s3://other/trips, not at s3a://lake/trips"):
        plan_table(ours, replace(ours, location="s3://other/trips"))
    assert not plan_table(ours, replace(ours, location="s3://lake/trips")).changes


def test_a_read_optimized_entry_does_not_silently_become_a_snapshot() -> None:
    merge_on_read = {"hoodie.table.type": "MERGE_ON_READ"}
    found = table_of(properties=merge_on_read, **sync_option("table.strategy", "RO"))
    with pytest.raises(CatalogConflict, match="sync_snapshot_with_table_name=false"):
        plan_table(table_of(properties=merge_on_read), found)


def partition(*values: str, at: str | None = None) -> CatalogPartition:
    return CatalogPartition(values, at or f"file:/data/trips/{'/'.join(values)}")


def test_written_partitions_are_added_and_those_elsewhere_moved() -> None:
    found = [partition("berlin"), partition("oslo", at="hdfs://host/old/oslo"), partition("rome", at="/data/trips/rome/")]
    plan = plan_partitions(settings_of(), PartitionChanges(written=("berlin", "oslo", "paris", "rome")), found)
    assert plan.add == (partition("paris"),)
    assert plan.move == (partition("oslo"),)
    assert plan.drop == ()


def test_a_partition_in_another_bucket_is_moved() -> None:
    settings = settings_of(**{"hoodie.datasource.meta.sync.base.path": "s3a://lake/trips"})
    found = [partition("berlin", at="s3://lake/trips/berlin"), partition("oslo", at="s3://old/trips/oslo")]
    plan = plan_partitions(settings, PartitionChanges(written=("berlin", "oslo")), found)
    assert plan.move == (partition("oslo", at="s3a://lake/trips/oslo"),)


def test_dropped_partitions_are_dropped_if_the_catalog_has_them() -> None:
    plan = plan_partitions(settings_of(), PartitionChanges(dropped=("oslo", "rome")), [partition("oslo")])
    assert plan.drop == (("oslo",),)


def test_a_full_comparison_drops_what_the_table_does_not_have() -> None:
    plan = plan_partitions(settings_of(), PartitionChanges(("oslo",), is_full=True), [partition("oslo"), partition("old")])
    assert plan.drop == (("old",),)
    assert not plan.add


def test_the_point_of_the_last_sync_is_stored_in_properties() -> None:
    table = with_sync_point(table_of(), SyncPoint("20240309000000000", "20240309000001000"), "/data/trips")
    assert table.properties[LAST_COMMIT] == "20240309000000000"
    assert read_sync_point(table) == SyncPoint("20240309000000000", "20240309000001000")
    assert read_sync_point(None) == SyncPoint()

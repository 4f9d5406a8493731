"""The same table, registered by real Hudi and by Penstock: the entries of the metastore are equal, and each continues the other's."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from tests.kit.metastore import RunningMetastore
from tests.kit.oracle import Oracle
from tests.table.tables import HIVE_STYLE, TRIPS, URL_ENCODE, trips, values, write

QUIET = {"hoodie.metadata.enable": "false"}
#: What the metastore adds by itself, and the version of Spark, which differs between the two engines.
NOT_COMPARED = {"transient_lastDdlTime", "numFiles", "totalSize", "spark.sql.create.version"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
SYNC = "hoodie.datasource.hive_sync."
TRIP_SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])


def all_types() -> pa.Table:
    """Return two rows with a column of every type."""
    nested = pa.struct([("A", pa.int64()), ("inner", pa.struct([("c", pa.string())]))])
    return pa.table(
        {
            "id": ["a", "b"],
            "city": ["oslo", "new york"],
            "ts": pa.array([1, 2], pa.int64()),
            "number": pa.array([1, 2], pa.int32()),
            "small": pa.array([1.0, 2.0], pa.float32()),
            "fare": [1.0, 2.0],
            "is_paid": [True, False],
            "price": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2.50")], pa.decimal128(10, 2)),
            "day": [dt.date(2024, 3, 9)] * 2,
            "at": pa.array([dt.datetime(2024, 3, 9)] * 2, pa.timestamp("us", "UTC")),
            "data": [b"x", b"y"],
            "list": pa.array([[1], [2]], pa.list_(pa.int64())),
            "map": pa.array([[("k", 1)], [("k", 2)]], pa.map_(pa.string(), pa.int32())),
            "struct": pa.array([{"A": 1, "inner": {"c": "x"}}] * 2, nested),
            "MixedCase": ["x", "y"],
            "structs": pa.array([[{"q": 1}]] * 2, pa.list_(pa.struct([("q", pa.int32())]))),
        }
    )


def entry(metastore: RunningMetastore, database: str, name: str) -> dict[str, Any]:
    """Return what the metastore holds of a table and its partitions, in a comparable form."""
    table = metastore.table(database, name)
    return {
        "type": table.tableType,
        "owner": table.owner,
        "parameters": {key: value for key, value in table.parameters.items() if key not in NOT_COMPARED},
        "keys": [(key.name, key.type, key.comment) for key in table.partitionKeys],
        "storage": describe(table.sd),
        "partitions": [(each.values, describe(each.sd)) for each in metastore.partitions(database, name)],
    }


def describe(storage: Any) -> dict[str, Any]:
    """Return a storage descriptor in a comparable form."""
    return {
        "columns": [(column.name, column.type, column.comment) for column in storage.cols],
        "location": storage.location,
        "formats": (storage.inputFormat, storage.outputFormat, storage.serdeInfo.serializationLib),
        "serde": dict(storage.serdeInfo.parameters),
        "buckets": (storage.numBuckets, storage.bucketCols, storage.sortCols),
        "rest": (storage.compressed, storage.parameters, storage.storedAsSubDirectories, storage.serdeInfo.name),
    }


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain", {}),
        ("hive_style", {HIVE_STYLE: "true", SYNC + "support_timestamp": "true"}),
        ("views", {**MERGE_ON_READ, SYNC + "table_properties": "a=b\nc=d", SYNC + "serde_properties": "x=y"}),
        ("managed", {SYNC + "create_managed_table": "true"}),
        ("without_spark", {SYNC + "sync_as_datasource": "false"}),
        ("narrow", {SYNC + "omit_metadata_fields": "true", SYNC + "use_pre_apache_input_format": "true"}),
    ],
)
def test_both_register_the_same_table_letter_by_letter(
    hudi015: Oracle, metastore: RunningMetastore, tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    path = str(tmp_path / name)
    table = {**TRIPS, **QUIET, "hoodie.table.name": name, **options}
    hudi015.write(path, all_types(), {**table, **metastore.options(f"theirs_{name}")}, mode="overwrite")
    ours = {key: value for key, value in options.items() if key.startswith(SYNC)}
    penstock.Table.open(path).sync({**ours, **metastore.options(f"ours_{name}")})
    names = metastore.tables(f"theirs_{name}")
    assert metastore.tables(f"ours_{name}") == names
    for each in names:
        assert entry(metastore, f"ours_{name}", each) == entry(metastore, f"theirs_{name}", each)


@pytest.mark.parametrize("kind", [{}, MERGE_ON_READ], ids=["copy_on_write", "merge_on_read"])
def test_each_continues_where_the_other_stopped(
    spark: Any, hudi015: Oracle, metastore: RunningMetastore, table_path: str, kind: dict[str, str]
) -> None:
    database = f"both_in_turns_{len(kind)}"
    options = {**TRIPS, **QUIET, **kind, URL_ENCODE: "false", **metastore.options(database)}

    def theirs(*rows: tuple[Any, ...], schema: pa.Schema = TRIP_SCHEMA) -> None:
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        hudi015.write(table_path, pa.table(columns, schema=schema), options)

    def registered() -> list[str]:
        return [partition.values[0] for partition in metastore.partitions(database, "trips")]

    theirs(("a", "oslo", 1, 1.0))
    write(trips(spark, ("b", "paris", 2, 2.0)), table_path, options)
    assert registered() == ["oslo", "paris"]
    theirs(("c", "tokyo", 3, 3.0))
    assert registered() == ["oslo", "paris", "tokyo"]
    columns = "id string, city string, ts bigint, fare double, note string"
    write(values(spark, columns, ("d", "rome", 4, 4.0, "x")), table_path, options)
    assert metastore.table(database, "trips").sd.cols[-1].name == "note"
    penstock.Table.open(table_path, options=options).delete_partitions("paris")
    assert registered() == ["oslo", "rome", "tokyo"]
    theirs(("e", "lima", 5, 5.0, "y"), schema=TRIP_SCHEMA.append(pa.field("note", pa.string())))
    assert registered() == ["lima", "oslo", "rome", "tokyo"]
    before = {name: entry(metastore, database, name) for name in metastore.tables(database)}
    assert [each.changes for each in penstock.Table.open(table_path, options=options).sync()] == [()] * len(before)
    assert {name: entry(metastore, database, name) for name in before} == before

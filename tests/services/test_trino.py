"""Trino reads the tables that a sync registered in a real Hive metastore: an engine that shares no code with Penstock finds the rows.

Trino reads base files only. So a merge-on-read table is compared by its entry `_ro`, with the read-optimized query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from tests.kit.metastore import RunningMetastore
from tests.kit.servers import ServerUnavailable
from tests.kit.trino import Trino, running_trino
from tests.table.tables import BULK, SIX, TRIPS, load, snapshot, trips, values, write

QUERY = "hoodie.datasource.query.type"
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


@pytest.fixture(scope="module")
def trino(metastore: RunningMetastore) -> Iterator[Trino]:
    """A real Trino on the metastore."""
    try:
        with running_trino(metastore.uri) as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


def rows_of(trino: Trino, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a table as Trino reads them, sorted as `snapshot` sorts."""
    return sorted((tuple(row) for row in trino.query(f"select {', '.join(columns)} from {table}")), key=repr)


def test_a_copy_on_write_table_has_the_rows_of_its_last_commit(
    spark: Any, table_path: str, metastore: RunningMetastore, trino: Trino
) -> None:
    options = metastore.options("trino_cow")
    write(trips(spark, *SIX), table_path, {**BULK, **options})
    columns = ("id", "city", "ts", "fare")
    assert rows_of(trino, "trino_cow.trips", *columns) == sorted(SIX, key=repr)

    table = penstock.Table.open(table_path, spark, options=options)
    table.upsert(trips(spark, ("a", "berlin", 9, 9.5), ("n", "new york", 9, 1.0)))
    table.delete(trips(spark, ("f", "tokyo", 9, 0.0)))
    expected = snapshot(spark, table_path)
    assert len(expected) == 6
    assert rows_of(trino, "trino_cow.trips", *columns) == expected
    assert trino.query("select count(*) from trino_cow.trips where city = 'new york'") == [[1]]

    with_note = values(spark, "id string, city string, ts bigint, fare double, note string", ("z", "oslo", 9, 1.0, "late"))
    write(with_note, table_path, {**TRIPS, **options})
    table.delete_partitions("paris")
    assert trino.query("select id, note from trino_cow.trips where note is not null") == [["z", "late"]]
    assert rows_of(trino, "trino_cow.trips", *columns, "note") == snapshot(spark, table_path)


def test_every_type_is_read_as_it_was_written(spark: Any, table_path: str, metastore: RunningMetastore, trino: Trino) -> None:
    frame = spark.sql(
        "select 'a' as id, 'p' as city, 1L as ts, 7 as number, cast(1.5 as float) as small, true as is_paid, "
        "cast(1.25 as decimal(10, 2)) as price, date'2024-03-09' as day, timestamp'2024-03-09 10:00:00' as at, "
        "named_struct('lat', 1.5D, 'name', 'x') as place, array(1L, 2L) as list, map('k', 3) as counts, "
        "unhex('FF') as data, cast(null as string) as nothing"
    )
    write(frame, table_path, {**BULK, **metastore.options("trino_types", support_timestamp="true")})
    (row,) = trino.query(
        "select number, small, is_paid, cast(price as varchar), cast(day as varchar), cast(cast(at as timestamp(3)) as varchar), "
        "place.lat, place.name, list[2], counts['k'], to_hex(data), nothing from trino_types.trips"
    )
    assert row == [7, 1.5, True, "1.25", "2024-03-09", "2024-03-09 10:00:00.000", 1.5, "x", 2, 3, "FF", None]


def test_a_merge_on_read_table_has_the_rows_of_its_base_files(
    spark: Any, table_path: str, metastore: RunningMetastore, trino: Trino
) -> None:
    options = metastore.options("trino_mor")
    write(trips(spark, *SIX), table_path, {**BULK, **MERGE_ON_READ, **options})
    table = penstock.Table.open(table_path, spark, options=options)
    table.upsert(trips(spark, ("a", "berlin", 9, 9.5)))
    columns = ("id", "city", "ts", "fare")

    def read_optimized() -> list[tuple[Any, ...]]:
        rows = load(spark, table_path, **{QUERY: "read_optimized"}).select(*columns).collect()
        return sorted((tuple(row) for row in rows), key=repr)

    assert rows_of(trino, "trino_mor.trips_ro", *columns) == read_optimized() == sorted(SIX, key=repr)
    table.compact()
    compacted = rows_of(trino, "trino_mor.trips_ro", *columns)
    assert compacted == read_optimized() == snapshot(spark, table_path)
    assert ("a", "berlin", 9, 9.5) in compacted

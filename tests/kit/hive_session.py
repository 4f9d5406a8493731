"""A job in a Spark session with a Hive catalog, in a process of its own: a process has one session, and that of the tests has no Hive.

Writes tables that a sync registers, reads them by their names, and prints what it found as one line of JSON:

    python -m tests.kit.hive_session KIND METASTORE FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock
from penstock.spark.catalog_tables import parse_name
from tests.kit.sessions import make_session
from tests.table.tables import BULK, SIX, TRIPS, sorted_rows, trips, write

SYNC = "hoodie.datasource.hive_sync."
#: A second catalog of the session, which is never asked for anything.
OTHER_CATALOG = {
    "spark.sql.catalog.lake": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    "spark.sql.catalog.lake.url": "jdbc:derby:memory:lake",
    "spark.sql.catalog.lake.driver": "org.apache.derby.jdbc.EmbeddedDriver",
}


def run(spark: Any, metastore_uri: str, folder: Path) -> dict[str, Any]:
    """Run the job, and return what it found by name."""
    database = f"by_name_{folder.name.replace('-', '_')}"
    sync = {SYNC + "enable": "true", SYNC + "mode": "hms", SYNC + "metastore.uris": metastore_uri, SYNC + "database": database}
    merge_on_read = {**sync, "hoodie.table.name": "rides", "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    write(trips(spark, *SIX), f"{folder}/trips", {**BULK, **sync})
    write(trips(spark, *SIX), f"{folder}/rides", {**BULK, **merge_on_read})
    write(trips(spark, ("a", "berlin", 9, 9.5)), f"{folder}/rides", {**TRIPS, **merge_on_read})
    found: dict[str, Any] = {}

    def rows(frame: Any) -> list[tuple[Any, ...]]:
        return sorted_rows(frame.select("id", "city", "ts", "fare"))

    found["table"] = rows(spark.table(f"{database}.trips"))
    found["read_table"] = rows(spark.read.table(f"spark_catalog.{database}.trips"))
    found["sql"] = rows(spark.sql(f"select * from {database}.trips"))
    found["self_join"] = spark.sql(f"select trips.id, t.fare from {database}.trips join {database}.trips as t "
                                "on trips.id = t.id where trips.city = 'paris' order by 1 -- from nowhere").collect()  # fmt: skip
    found["snapshot"] = rows(spark.table(f"{database}.rides"))
    found["read_optimized"] = rows(spark.table(f"{database}.rides_ro"))
    found["both_views"] = spark.sql(
        f"with old as (select * from {database}.rides_ro) select rides.fare - old.fare from {database}.rides, old "
        "where rides.id = old.id and rides.id = :key", {"key": "a"}).collect()[0][0]  # fmt: skip

    spark.sql(f"use {database}")
    found["current_database"] = spark.sql("select count(*) from trips").collect()[0][0]
    trips(spark, SIX[0]).createOrReplaceTempView("rides")
    found["temporary_view_first"] = spark.sql("select count(*) from rides join trips using (id)").collect()[0][0]
    spark.sql("create table plain as select 1 as n")
    found["other_tables"] = spark.table("plain").collect()[0][0]

    write(trips(spark, ("n", "oslo", 9, 1.0)), f"{folder}/trips", {**TRIPS, **sync})
    found["after_a_write"] = [spark.table("trips").count(), spark.sql("select count(*) from trips").collect()[0][0]]

    spark.catalog.setCurrentCatalog("lake")
    found["other_catalog"] = [parse_name(spark, "trips"), parse_name(spark, f"{database}.trips")]
    found["hive_catalog"] = spark.table(f"spark_catalog.{database}.trips").count()
    spark.sql(f"use spark_catalog.{database}")

    found["insert"] = error(lambda: spark.sql("insert into trips values (1)").collect())
    found["missing"] = error(lambda: spark.table(f"{database}.no_such_table").collect())
    penstock.disable(spark)
    found["disabled"] = error(lambda: spark.table("trips").collect())
    return found


def error(action: Callable[[], Any]) -> str:
    """Return class and text of the error that an action raises, without the stack of the JVM."""
    try:
        action()
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:400]
    return "no error"


def main() -> None:
    """Run the job in a session of the kind that the command line names."""
    kind, metastore_uri, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    conf = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": metastore_uri, **OTHER_CATALOG}
    with make_session(kind, folder, conf) as spark:
        print("FOUND " + json.dumps(run(penstock.enable(spark), metastore_uri, folder)))


if __name__ == "__main__":
    main()

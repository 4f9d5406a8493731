"""Engines on Spark: Hudi (and Penstock, which is the same code), Delta, Iceberg."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bench.data import Checksum, checksum_sql, plain
from bench.workload import TABLES, Engine, file_cap

IVY = Path(os.environ.get("PENSTOCK_IVY") or Path(__file__).resolve().parents[1] / ".cache" / "ivy")
SHUFFLE_PARTITIONS = 20
MAX_SPLIT = "100m"
SESSION = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.files.maxPartitionBytes": MAX_SPLIT,
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}


class SparkEngine(Engine):
    """A session of its own, with the engine's jars from Maven Central where it has any."""

    PACKAGES = ""
    EXCLUDES = ""
    CONF: Mapping[str, str] = {}

    def __init__(self, name: str, root: str, codec: str) -> None:
        super().__init__(name, root, codec)
        from penstock.spark.java import use_java

        use_java()
        os.environ["PYSPARK_PYTHON"] = sys.executable
        conf = {
            **SESSION,
            "spark.master": os.environ.get("BENCH_MASTER", "local[2]"),
            "spark.driver.memory": os.environ.get("BENCH_DRIVER_MEMORY", "8g"),
            "spark.local.dir": f"{root}/spark",
            "spark.sql.warehouse.dir": f"{root}/warehouse",
            "spark.sql.parquet.compression.codec": codec,
            "spark.pyspark.python": sys.executable,
            **{k: v.format(root=root) for k, v in self.CONF.items()},
        }
        with _one_at_a_time():
            self.spark: Any = _open_session(name, {**conf, **self._jars()})
        self.spark.sparkContext.setLogLevel("ERROR")

    def _jars(self) -> dict[str, str]:
        if not self.PACKAGES:
            return {}
        excludes = {"spark.jars.excludes": self.EXCLUDES} if self.EXCLUDES else {}
        return {"spark.jars.packages": self.PACKAGES, "spark.jars.ivy": str(IVY), **excludes}

    def close(self) -> None:
        self.spark.stop()

    def source(self, src: str, table: str | None = None) -> Any:
        """Return the rows of a folder. The load of a table with a number of file groups has one Spark task per file."""
        cost = MAX_SPLIT if table is not None and TABLES[table].groups else "4m"
        self.spark.conf.set("spark.sql.files.openCostInBytes", cost)
        return self.spark.read.parquet(src)

    def read(self, table: str, **options: str) -> Any:
        """Return the table as a DataFrame."""
        raise NotImplementedError

    def _sum(self, frame: Any, table: str) -> Checksum:
        frame.createOrReplaceTempView("t")
        rows = self.spark.sql(f"SELECT {checksum_sql(table, 'spark')} FROM t GROUP BY city").collect()
        return sorted(plain(r) for r in rows)

    def checksum(self, table: str) -> Checksum:
        return self._sum(self.read(table), table)

    def count(self, table: str, condition: str) -> int:
        return int(self.read(table).where(condition).count())


def _open_session(name: str, conf: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"bench-{name}")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Lock the cache of Ivy, which does not support two concurrent writers."""
    IVY.mkdir(parents=True, exist_ok=True)
    with (IVY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class HudiApi(SparkEngine):
    """An engine behind `format("hudi")`: the public DataFrame API and nothing else."""

    #: Options on every write.
    OPTIONS: Mapping[str, str] = {}

    def __init__(self, name: str, root: str, codec: str) -> None:
        super().__init__(name, root, codec)
        self._caps: dict[str, int | None] = {}

    def read(self, table: str, **options: str) -> Any:
        return self.spark.read.format("hudi").options(**options).load(self.path(table))

    def write(self, table: str, src: str, operation: str, index: str = "SIMPLE", **more: str) -> None:
        """Write a batch to the table, which is created if it does not exist."""
        exists, buckets = os.path.exists(self.path(table)), TABLES[table].buckets
        if buckets:
            index, more = "BUCKET", {"hoodie.bucket.index.num.buckets": str(buckets), **more}
        self.save(self.source(src, None if exists else table), table, operation, index, **self._sizing(table, src), **more)

    def save(self, frame: Any, table: str, operation: str, index: str = "SIMPLE", **more: str) -> None:
        """Write any rows to the table."""
        options = {
            "hoodie.table.name": table,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if TABLES[table].merge_on_read else "COPY_ON_WRITE",
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.index.type": index,
            "hoodie.parquet.compression.codec": self.codec,
            **self.OPTIONS,
            **more,
        }
        mode = "append" if os.path.exists(self.path(table)) else "overwrite"
        frame.write.format("hudi").options(**options).mode(mode).save(self.path(table))

    def _sizing(self, table: str, src: str) -> dict[str, str]:
        """Return the file size that results in the table's number of file groups, remembered from the load."""
        cap = self._caps.setdefault(self.path(table), file_cap(table, src))
        return {"hoodie.parquet.max.file.size": str(cap)} if cap else {}

    def bulk_insert(self, table: str, src: str) -> None:
        self.write(table, src, "bulk_insert")

    def upsert(self, table: str, src: str, index: str = "SIMPLE", cities: list[str] | None = None) -> None:
        self.write(table, src, "upsert", index)

    def delete(self, table: str, src: str) -> None:
        self.write(table, src, "delete")

    def compact(self, table: str, src: str) -> None:
        inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
        self.write(table, src, "upsert", **inline)

    def cluster(self, table: str, src: str) -> None:
        inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
        self.write(table, src, "upsert", **inline, **{"hoodie.clustering.plan.strategy.sort.columns": "rider"})

    def read_optimized(self, table: str) -> Checksum:
        return self._sum(self.read(table, **{"hoodie.datasource.query.type": "read_optimized"}), table)

    def before(self, step: str, table: str) -> None:
        if step == "W12":  # a millisecond before the last commit: right by request time and by completion time
            last = self.read(table).agg({"_hoodie_commit_time": "max"}).first()[0]
            instant = datetime.strptime(last + "000", "%Y%m%d%H%M%S%f") - timedelta(milliseconds=1)
            self.since = instant.strftime("%Y%m%d%H%M%S%f")[:17]

    def incremental(self, table: str) -> Checksum:
        query = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": self.since}
        return self._sum(self.read(table, **query), table)


class Penstock(HudiApi):
    """`penstock.enable(spark)` on a session with the settings of `penstock.session`."""

    def __init__(self, name: str, root: str, codec: str) -> None:
        import penstock
        from penstock.spark.session import DEFAULTS

        self.CONF = DEFAULTS
        self.schemas: dict[str, Any] = {}
        super().__init__(name, root, codec)
        penstock.enable(self.spark)

    def _plain(self, table: str) -> Any:
        """Return the table's base files, read by Spark's Parquet reader with their schema and without a listing job."""
        from penstock.table.listing import list_base_slices
        from penstock.table.state import open_table

        slices = list_base_slices(open_table(self.path(table)))
        paths = [s.base_file.path for its in slices.values() for s in its if s.base_file]
        threshold = "spark.sql.sources.parallelPartitionDiscovery.threshold"
        self.spark.conf.set(threshold, str(len(paths) + 1))
        frame = self.spark.read.schema(self.schemas[table]).parquet(*paths)
        self.spark.conf.unset(threshold)
        return frame

    def before(self, step: str, table: str) -> None:
        super().before(step, table)
        if step.endswith("p"):
            self.schemas[table] = self.read(table).schema

    def plain_checksum(self, table: str) -> Checksum:
        return self._sum(self._plain(table), table)

    def plain_count(self, table: str, condition: str) -> int:
        return int(self._plain(table).where(condition).count())


class PenstockThroughJvm(Penstock):
    """Penstock with every row through the JVM, as for rows that are not plain files."""

    OPTIONS: Mapping[str, str] = {"penstock.direct.input": "false"}


class Hudi015(HudiApi):
    """Apache Hudi 0.15.0 with its defaults."""

    PACKAGES = "org.apache.hudi:hudi-spark3.5-bundle_2.12:0.15.0"
    # The bundle carries these; resolving them again fails where a Maven cache holds a pom without its jar.
    EXCLUDES = "org.slf4j:slf4j-api,org.apache.hive:hive-storage-api"
    CONF: Mapping[str, str] = {
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    }


class Hudi015Plain(Hudi015):
    """Apache Hudi 0.15.0 without its metadata table, which Penstock does not keep either."""

    OPTIONS: Mapping[str, str] = {"hoodie.metadata.enable": "false"}


class Hudi12(Hudi015):
    """Apache Hudi 1.2.0 with its defaults."""

    PACKAGES = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"


class Hudi12V6(Hudi12):
    """Apache Hudi 1.2.0 with table version 6, the version of Penstock."""

    OPTIONS: Mapping[str, str] = {"hoodie.write.table.version": "6"}


class Merging(SparkEngine):
    """Delta and Iceberg: MERGE on (city, uuid), with the cities as literals when the batch is known to hold only these."""

    def named(self, table: str) -> str:
        """Return the table's name in SQL."""
        raise NotImplementedError

    def optimize(self, table: str, column: str | None = None) -> None:
        """Rewrite everything, sorted by a column if one is given."""
        raise NotImplementedError

    def create(self, table: str, rows: Any) -> None:
        """Create the table with these rows."""
        raise NotImplementedError

    def bulk_insert(self, table: str, src: str) -> None:
        self.create(table, self.source(src, table))

    def before(self, step: str, table: str) -> None:
        if step == "W23a":  # MERGE needs a table
            self.create(table, self.source(f"{self.data}/partitions").limit(0))

    def merge(self, table: str, src: str, then: str, cities: list[str] | None = None) -> None:
        """Run one MERGE statement."""
        self.source(src).createOrReplaceTempView("s")
        only = f" AND t.city IN ({', '.join(repr(c) for c in cities)})" if cities else ""
        on = f"t.city = s.city AND t.uuid = s.uuid{only}"
        self.spark.sql(f"MERGE INTO {self.named(table)} t USING s ON {on} {then}").collect()

    def upsert(self, table: str, src: str, index: str = "", cities: list[str] | None = None) -> None:
        self.merge(table, src, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", cities)

    def delete(self, table: str, src: str) -> None:
        self.merge(table, src, "WHEN MATCHED THEN DELETE")

    def compact(self, table: str, src: str) -> None:
        self.upsert(table, src)
        self.optimize(table)

    def cluster(self, table: str, src: str) -> None:
        self.upsert(table, src)
        self.optimize(table, "rider")


class Delta(Merging):
    """MOR is deletion vectors. Change data feed is on for W3 only, so that W12 has something to read."""

    PACKAGES = "io.delta:delta-spark_2.12:3.3.2"
    CONF: Mapping[str, str] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    def named(self, table: str) -> str:
        return f"delta.`{self.path(table)}`"

    def read(self, table: str, **options: str) -> Any:
        return self.spark.read.format("delta").options(**options).load(self.path(table))

    def create(self, table: str, rows: Any) -> None:
        vectors = str(TABLES[table].merge_on_read).lower()
        writer = rows.write.format("delta").partitionBy("city")
        writer.option("delta.enableDeletionVectors", vectors).save(self.path(table))

    def optimize(self, table: str, column: str | None = None) -> None:
        self.spark.sql(f"OPTIMIZE {self.named(table)}" + (f" ZORDER BY ({column})" if column else "")).collect()

    def before(self, step: str, table: str) -> None:
        super().before(step, table)
        if step in ("W3", "W4"):
            on = str(step == "W3").lower()
            self.spark.sql(f"ALTER TABLE {self.named(table)} SET TBLPROPERTIES (delta.enableChangeDataFeed = {on})")
        if step == "W12":
            self.version = self.spark.sql(f"DESCRIBE HISTORY {self.named(table)} LIMIT 1").first()["version"]

    def incremental(self, table: str) -> Checksum:
        changes = self.read(table, readChangeFeed="true", startingVersion=str(self.version))
        return self._sum(changes.where("_change_type IN ('insert', 'update_postimage')"), table)


class Iceberg(Merging):
    """Format version 2; MOR is position deletes. Loads do not shuffle (the input is clustered), merges do."""

    PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0"
    CONF: Mapping[str, str] = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": "{root}",
    }

    def named(self, table: str) -> str:
        return f"ice.{self.run}.{table}"

    def read(self, table: str, **options: str) -> Any:
        return self.spark.table(self.named(table))

    def create(self, table: str, rows: Any) -> None:
        from pyspark.sql.functions import col

        mode = "merge-on-read" if TABLES[table].merge_on_read else "copy-on-write"
        writer = rows.writeTo(self.named(table)).using("iceberg").partitionedBy(col("city"))
        properties = {
            "write.parquet.compression-codec": self.codec,
            "write.distribution-mode": "none",
            "write.merge.distribution-mode": "hash",
            "write.merge.mode": mode,
            "write.delete.mode": mode,
        }
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        writer.create()

    def optimize(self, table: str, column: str | None = None) -> None:
        sort = f"strategy => 'sort', sort_order => '{column} ASC NULLS LAST', " if column else ""
        call = f"table => '{self.named(table)}', {sort}options => map('rewrite-all', 'true')"
        self.spark.sql(f"CALL ice.system.rewrite_data_files({call})").collect()

    def before(self, step: str, table: str) -> None:
        super().before(step, table)
        if step == "W12":
            newest = f"SELECT snapshot_id FROM {self.named(table)}.snapshots ORDER BY committed_at DESC LIMIT 2"
            self.since = self.spark.sql(newest).collect()[1][0]

    def incremental(self, table: str) -> Checksum:
        since = f"options => map('start-snapshot-id', '{self.since}'), identifier_columns => array('uuid')"
        call = f"table => '{self.named(table)}', changelog_view => 'changes', {since}"
        self.spark.sql(f"CALL ice.system.create_changelog_view({call})").collect()
        return self._sum(self.spark.table("changes").where("_change_type IN ('INSERT', 'UPDATE_AFTER')"), table)

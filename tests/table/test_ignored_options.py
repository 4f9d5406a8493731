"""Options that change no rows: a table is the same with and without them, and one warning per session names them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import Unsupported
from penstock.options import IgnoredOptionWarning, forget_shown_warnings
from tests.table.tables import SIX, TRIPS, load, properties, snapshot, state_of, trips, values, write

LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
    "hoodie.write.lock.zookeeper.url": "zookeeper",
    "hoodie.write.lock.zookeeper.port": "2181",
    "hoodie.write.lock.zookeeper.base_path": "/hudi",
}
ON_READ = "hoodie.schema.on.read.enable"
METAFILE = "hoodie.partition.metafile.use.base.format"
RECONCILE = "hoodie.datasource.write.reconcile.schema"
MANY = {
    **LOCK,
    ON_READ: "true",
    METAFILE: "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.table.checksum": "1",
    "hoodie.metadata.enable": "true",
    # Their features are off.
    "hoodie.metrics.reporter.type": "CLOUDWATCH",
    "hoodie.write.commit.callback.class": "com.acme.Callback",
    "hoodie.clustering.plan.strategy.class": "com.acme.Plans",
    "hoodie.clustering.updates.strategy": "com.acme.Updates",
    "hoodie.datasource.hive_sync.partition_extractor_class": "com.acme.Extractor",
    "hoodie.datasource.hive_sync.base_file_format": "ORC",
    "hoodie.meta.sync.client.tool.class": "com.acme.SyncTool",
    "hoodie.bulkinsert.user.defined.partitioner.class": "com.acme.Partitioner",
    "hoodie.logfile.data.block.format": "hfile",
    "hoodie.index.hbase.security.authentication": "kerberos",
    "hoodie.partition.ttl.strategy.class": "com.acme.Lifetime",
    "hoodie.bootstrap.base.path": "/old",
    "hoodie.rollback.instant.backup.enabled": "true",
    "hoodie.table.service.manager.enabled": "true",
}


def test_a_table_is_the_same_with_options_that_change_no_rows(spark: Any, tmp_path: Path) -> None:
    plain, full = str(tmp_path / "plain"), str(tmp_path / "full")
    forget_shown_warnings()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for path, options in ((plain, {}), (full, MANY)):
            for rows in (SIX, SIX[:1]):  # a table is created, then written to
                trips(spark, *rows).write.format("hudi").options(**TRIPS, **options).mode("append").save(path)
        rows_read = snapshot(spark, full, **MANY)
    assert rows_read == snapshot(spark, plain) == [*SIX]
    stored = properties(full)
    assert stored == properties(plain)
    assert stored[METAFILE] == "false"
    assert (tmp_path / "full" / "berlin" / ".hoodie_partition_metadata").exists()
    ignored = [warning for warning in caught if issubclass(warning.category, IgnoredOptionWarning)]
    named = [key for warning in ignored for key in str(warning.message).partition(" ha")[0].split(", ")]
    assert sorted(named) == sorted(MANY)
    assert {warning.filename for warning in ignored} == {__file__}
    assert len({warning.lineno for warning in ignored}) == 1


def test_a_feature_that_is_used_all_the_same_refuses_the_value(spark: Any, table: str, tmp_path: Path) -> None:
    """The option that turns the feature on after a write is not set: the feature is called, or it is a property of the table."""
    before = state_of(table)
    opened = penstock.Table.open(table, spark)
    calls: dict[str, Callable[[dict[str, object]], object]] = {
        "hoodie.clustering.plan.strategy.class": lambda options: opened.cluster(options=options),
        "hoodie.partition.ttl.strategy.class": lambda options: opened.expire_partitions(
            {**options, "hoodie.partition.ttl.strategy.days.retain": 1}
        ),
        "hoodie.datasource.hive_sync.partition_extractor_class": opened.sync,
        "hoodie.bulkinsert.user.defined.partitioner.class": lambda options: opened.bulk_insert(
            trips(spark, SIX[0]), options=options
        ),
    }
    for key, call in calls.items():
        with pytest.raises(Unsupported, match=f"'{key}' is 'com.acme.Mine'"):
            call({key: "com.acme.Mine"})
    assert state_of(table) == before
    merge_on_read = str(tmp_path / "mor")
    write(trips(spark, *SIX), merge_on_read, {**TRIPS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    before = state_of(merge_on_read)
    with pytest.raises(Unsupported, match="'hoodie.logfile.data.block.format' is 'hfile'"):
        write(trips(spark, SIX[0]), merge_on_read, {**TRIPS, "hoodie.logfile.data.block.format": "hfile"})
    assert state_of(merge_on_read) == before


def test_a_new_session_is_told_again(spark: Any, table: str) -> None:
    write(trips(spark, SIX[0]), table, {**TRIPS, **LOCK})
    if "connect" in type(spark).__module__:
        pytest.skip("newSession of Connect needs another connection")
    other = penstock.enable(spark.newSession())
    with pytest.warns(IgnoredOptionWarning, match="needs no lock"):
        write(trips(other, SIX[0]), table, {**TRIPS, **LOCK})


def test_schema_on_read_adds_columns_as_a_write_without_it(spark: Any, table: str) -> None:
    more = values(spark, "id string, city string, ts long, fare double, tip double", ("a", "berlin", 9, 1.0, 2.0))
    write(more, table, {**TRIPS, ON_READ: "true"})
    assert load(spark, table, **{ON_READ: "true"}).where("tip = 2.0").count() == 1
    fewer = values(spark, "id string, city string, ts long", ("a", "berlin", 10))
    write(fewer, table, {**TRIPS, ON_READ: "true", RECONCILE: "true"})
    row = load(spark, table).where("id = 'a'").first()
    assert (row.ts, row.fare, row.tip) == (10, None, None)


def test_schema_on_read_is_refused_where_the_table_has_a_history_of_schemas(spark: Any, table: str) -> None:
    """Hudi maps the columns of older files by this history."""
    Path(table, ".hoodie", ".schema", "20240101000000000.schemacommit").write_bytes(b"{}")
    before = state_of(table)
    with pytest.raises(Unsupported, match=rf"'{ON_READ}' is 'true', and the table .*: use Hudi for this table"):
        load(spark, table, **{ON_READ: "true"})
    with pytest.raises(Unsupported, match=ON_READ):
        write(trips(spark, SIX[0]), table, {**TRIPS, ON_READ: "true"})
    assert state_of(table) == before


def test_the_layout_of_the_bucket_index_is_accepted_with_that_index(spark: Any, table_path: str) -> None:
    options = {
        **TRIPS,
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.storage.layout.type": "BUCKET",
        "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    }
    write(trips(spark, *SIX), table_path, options)
    write(trips(spark, *SIX), table_path, options)
    assert snapshot(spark, table_path) == [*SIX]

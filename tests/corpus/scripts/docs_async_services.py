"""As in the documentation of table services: compaction and clustering are scheduled by the writer and run apart from it."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
options = {
    "hoodie.table.name": "events",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.compaction.async.enable": "true",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.inline": "false",
    "hoodie.clustering.schedule.inline": "false",
    "hoodie.clustering.async.enabled": "false",
    "hoodie.clustering.async.max.commits": "4",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "1073741824",
    "hoodie.clustering.plan.strategy.small.file.limit": "629145600",
    "hoodie.clustering.execution.strategy.class": "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy",
    "hoodie.clustering.plan.strategy.sort.columns": "ts,id",
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
}
for ts in range(4):
    rows = spark.createDataFrame([(i, ts, f"2024-01-0{1 + i % 2}") for i in range(6)], "id int, ts long, day string")
    rows.write.format("hudi").options(**options).mode("append").save(path)
table = penstock.Table.open(path)
assert table.compact()
assert table.cluster(options={"hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true"})
assert spark.read.format("hudi").load(path).where("ts = 3").count() == 6
assert [entry.operation for entry in table.history(limit=2)] == ["cluster", "compact"]

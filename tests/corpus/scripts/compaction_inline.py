"""A merge-on-read table that compacts after every second delta commit."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "mor",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.compaction.strategy": "org.apache.hudi.table.action.compact.strategy.UnBoundedCompactionStrategy",
}
for ts in range(4):
    spark.createDataFrame([(1, ts), (2, ts)], "id int, ts int").write.format("hudi").options(**opts).mode("append").save(
        sys.argv[1]
    )
ro = spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized").load(sys.argv[1])
assert {r.ts for r in spark.read.format("hudi").load(sys.argv[1]).collect()} == {3}
assert max(r.ts for r in ro.collect()) >= 1

"""Small files are clustered and sorted after every second commit."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "clustered",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "2",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "1073741824",
    "hoodie.clustering.plan.strategy.small.file.limit": "629145600",
    "hoodie.clustering.plan.strategy.sort.columns": "v",
}
for start in range(4):
    spark.range(start * 10, start * 10 + 10).selectExpr("id", "'x' as p", "100 - id as v").write.format("hudi").options(
        **opts
    ).mode("append").save(sys.argv[1])
out = spark.read.format("hudi").load(sys.argv[1])
assert (out.count(), out.select("_hoodie_file_name").distinct().count() < 4) == (40, True)

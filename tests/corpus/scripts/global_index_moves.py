"""A key moves to another partition with a global index."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "users",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "country",
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "true",
}
spark.createDataFrame([(1, 1, "de")], "id int, ts int, country string").write.format("hudi").options(**opts).mode(
    "overwrite"
).save(sys.argv[1])
spark.createDataFrame([(1, 2, "fr")], "id int, ts int, country string").write.format("hudi").options(**opts).mode("append").save(
    sys.argv[1]
)
assert [(r.id, r.country) for r in spark.read.format("hudi").load(sys.argv[1]).collect()] == [(1, "fr")]

"""Old partitions are dropped by name."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "daily",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
}
spark.createDataFrame([(1, "d1"), (3, "d2")], "id int, dt string").write.format("hudi").options(**opts).mode("append").save(
    sys.argv[1]
)
empty = spark.createDataFrame([], "id int, dt string")
empty.write.format("hudi").options(**opts).option("hoodie.datasource.write.operation", "delete_partition").option(
    "hoodie.datasource.write.partitions.to.delete", "d1"
).mode("append").save(sys.argv[1])
assert [r.id for r in spark.read.format("hudi").load(sys.argv[1]).collect()] == [3]

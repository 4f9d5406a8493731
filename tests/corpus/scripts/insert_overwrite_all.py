"""The whole table is loaded again without losing its history."""

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
spark.createDataFrame([(9, "d3")], "id int, dt string").write.format("hudi").options(**opts).option(
    "hoodie.datasource.write.operation", "insert_overwrite_table"
).mode("append").save(sys.argv[1])
assert [r.id for r in spark.read.format("hudi").load(sys.argv[1]).collect()] == [9]

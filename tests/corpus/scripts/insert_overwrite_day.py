"""A day is loaded again: insert_overwrite replaces its partition and no other."""

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
df = spark.createDataFrame([(1, "d1"), (2, "d1"), (3, "d2")], "id int, dt string")
df.write.format("hudi").options(**opts).option("hoodie.datasource.write.operation", "insert").mode("append").save(sys.argv[1])
spark.createDataFrame([(9, "d1")], "id int, dt string").write.format("hudi").options(**opts).option(
    "hoodie.datasource.write.operation", "insert_overwrite"
).mode("append").save(sys.argv[1])
assert sorted(r.id for r in spark.read.format("hudi").load(sys.argv[1]).collect()) == [3, 9]

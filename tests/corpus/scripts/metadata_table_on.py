"""The metadata table is on, as it is by default in Hudi: Penstock turns it off for its own commits and says so nowhere twice."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "true",
}
spark.createDataFrame([(1, 1)], "id int, ts int").write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
assert spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(sys.argv[1]).count() == 1

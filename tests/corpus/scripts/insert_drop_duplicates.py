"""Rows whose keys exist are dropped from an insert."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.insert.drop.duplicates": "true",
}
spark.createDataFrame([(1, 1)], "id int, ts int").write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
spark.createDataFrame([(1, 2), (2, 2)], "id int, ts int").write.format("hudi").options(**opts).mode("append").save(sys.argv[1])
assert sorted((r.id, r.ts) for r in spark.read.format("hudi").load(sys.argv[1]).collect()) == [(1, 1), (2, 2)]

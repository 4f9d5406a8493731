"""A column is added by a later batch; older rows have null."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.reconcile.schema": "false",
    "hoodie.schema.on.read.enable": "true",
}
spark.createDataFrame([(1, 1)], "id int, ts int").write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
spark.createDataFrame([(2, 2, "new")], "id int, ts int, note string").write.format("hudi").options(**opts).mode("append").save(
    sys.argv[1]
)
rows = sorted((r.id, r.note) for r in spark.read.format("hudi").load(sys.argv[1]).collect())
assert rows == [(1, None), (2, "new")], rows

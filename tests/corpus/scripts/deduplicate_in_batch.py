"""Two rows of one key in a batch: the one with the greater ordering value is kept."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.combine.before.insert": "true",
    "hoodie.datasource.write.operation": "insert",
}
spark.createDataFrame([(1, 5, "late"), (1, 9, "latest"), (1, 1, "early")], "id int, ts int, v string").write.format(
    "hudi"
).options(**opts).mode("overwrite").save(sys.argv[1])
assert [r.v for r in spark.read.format("hudi").load(sys.argv[1]).collect()] == ["latest"]

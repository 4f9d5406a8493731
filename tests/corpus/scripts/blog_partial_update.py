"""Partial updates by payload: null columns keep the stored value."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "profile",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload",
}
schema = "id int, ts long, email string, phone string"
spark.createDataFrame([(1, 1, "a@x", None), (2, 1, "b@x", "2")], schema).write.format("hudi").options(**opts).mode(
    "overwrite"
).save(sys.argv[1])
spark.createDataFrame([(1, 2, None, "1"), (2, 2, "B@x", None)], schema).write.format("hudi").options(**opts).mode("append").save(
    sys.argv[1]
)
rows = sorted((r.id, r.email, r.phone) for r in spark.read.format("hudi").load(sys.argv[1]).collect())
assert rows == [(1, "a@x", "1"), (2, "B@x", "2")], rows

"""A stream that upserts every batch by foreachBatch, the way that works everywhere."""

import os
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
os.makedirs(path + "-in")
spark.range(20).selectExpr("id % 5 as id", "id as ts").coalesce(1).write.parquet(path + "-in/1")
opts = {
    "hoodie.table.name": "stream",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}


def upsert(batch, batch_id):
    batch.write.format("hudi").options(**opts).mode("append").save(path)


stream = spark.readStream.schema("id long, ts long").parquet(path + "-in/*")
query = (
    stream.writeStream.foreachBatch(upsert).option("checkpointLocation", path + "-checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
assert sorted((r.id, r.ts) for r in spark.read.format("hudi").load(path).collect()) == [(i, 15 + i) for i in range(5)]

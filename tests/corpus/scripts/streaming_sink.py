"""A stream that is written with format("hudi"), and goes on after a restart."""

import os
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
os.makedirs(path + "-in")
opts = {
    "hoodie.table.name": "stream",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.upsert.shuffle.parallelism": "2",
}
stream = spark.readStream.schema("id long, ts long").parquet(path + "-in/*")
for run in (1, 2):
    spark.range(10).selectExpr(f"id % 5 * {run} as id", f"id + {run} as ts").coalesce(1).write.parquet(f"{path}-in/{run}")
    query = (
        stream.writeStream.format("hudi")
        .options(**opts)
        .outputMode("append")
        .option("checkpointLocation", path + "-checkpoint")
        .trigger(availableNow=True)
        .start(path)
    )
    query.awaitTermination()
rows = spark.read.format("hudi").load(path).select("id", "ts").orderBy("id").collect()
assert [(row.id, row.ts) for row in rows] == [(0, 7), (1, 7), (2, 8), (3, 9), (4, 9), (6, 10), (8, 11)], rows

"""A helper function with defaults that people copy from project to project."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())


def write_to_hudi(df, table, key, path, *, mode="append", operation="upsert", partition="", order="ts", extra=None):
    options = {
        "hoodie.table.name": table,
        "hoodie.datasource.write.table.name": table,
        "hoodie.datasource.write.storage.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.datasource.write.partitionpath.field": partition,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.precombine.field": order,
        "hoodie.upsert.shuffle.parallelism": "100",
        "hoodie.insert.shuffle.parallelism": "100",
        "hoodie.delete.shuffle.parallelism": "100",
        "hoodie.embed.timeline.server": "false",
        "hoodie.rollback.parallelism": "20",
        "hoodie.parquet.block.size": str(120 * 1024 * 1024),
        **(extra or {}),
    }
    df.write.format("hudi").options(**options).mode(mode).save(path)


write_to_hudi(spark.range(5).selectExpr("id", "1 as ts"), "t", "id", sys.argv[1])
write_to_hudi(spark.range(7).selectExpr("id", "2 as ts"), "t", "id", sys.argv[1], extra={"hoodie.write.markers.type": "DIRECT"})
assert spark.read.format("hudi").load(sys.argv[1]).where("ts = 2").count() == 7

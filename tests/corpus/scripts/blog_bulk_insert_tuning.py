"""A first load with everything that people set for a first load."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
df = spark.range(1000).selectExpr("id", "id % 7 as bucket", "cast(id as timestamp) as event_time", "concat('n', id) as name")
(
    df.write.format("hudi")
    .option("hoodie.table.name", "events")
    .option("hoodie.datasource.write.table.type", "COPY_ON_WRITE")
    .option("hoodie.datasource.write.operation", "bulk_insert")
    .option("hoodie.datasource.write.recordkey.field", "id")
    .option("hoodie.datasource.write.precombine.field", "event_time")
    .option("hoodie.datasource.write.partitionpath.field", "bucket")
    .option("hoodie.datasource.write.row.writer.enable", "true")
    .option("hoodie.bulkinsert.sort.mode", "GLOBAL_SORT")
    .option("hoodie.bulkinsert.shuffle.parallelism", 4)
    .option("hoodie.parquet.max.file.size", 134217728)
    .option("hoodie.parquet.small.file.limit", 104857600)
    .option("hoodie.parquet.compression.codec", "snappy")
    .option("hoodie.metadata.enable", "false")
    .option("hoodie.clean.automatic", "false")
    .option("hoodie.combine.before.insert", "false")
    .mode("overwrite")
    .save(sys.argv[1])
)
assert spark.read.format("hudi").load(sys.argv[1]).groupBy("bucket").count().count() == 7

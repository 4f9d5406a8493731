"""Partitions by day out of epoch milliseconds."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "clicks",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "event_ms",
    "hoodie.datasource.write.partitionpath.field": "event_ms",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
df = spark.createDataFrame([(1, 1704067200000), (2, 1704153600000)], "id int, event_ms long")
df.write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
out = spark.read.format("hudi").load(sys.argv[1])
assert sorted(r[0] for r in out.select("_hoodie_partition_path").collect()) == ["2024/01/01", "2024/01/02"]

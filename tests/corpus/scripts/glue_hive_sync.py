"""A job that registers its table in the metastore. No metastore answers here, so the write is committed with a warning."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
df = spark.createDataFrame([(1, 1)], "id int, ts int")
hudi = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.hive_sync.enable": "true",
    "hoodie.datasource.hive_sync.mode": "hms",
    "hoodie.datasource.hive_sync.database": "default",
    "hoodie.datasource.hive_sync.table": "orders",
    "hoodie.datasource.hive_sync.partition_extractor_class": "org.apache.hudi.hive.NonPartitionedExtractor",
}
df.write.format("hudi").options(**hudi).mode("overwrite").save(sys.argv[1])
rows = spark.read.format("hudi").load(sys.argv[1])
assert [(row._hoodie_record_key, row.ts) for row in rows.collect()] == [("1", 1)]

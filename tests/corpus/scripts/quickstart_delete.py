"""The quickstart: hard deletes of rows that a query selects."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
basePath = sys.argv[1]
base = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "partitionpath",
}
df = spark.createDataFrame(
    [(i, str(i), f"americas/brazil/{i % 2}") for i in range(10)], "ts long, uuid string, partitionpath string"
)
df.write.format("hudi").options(**base).options(
    **{"hoodie.upsert.shuffle.parallelism": 2, "hoodie.insert.shuffle.parallelism": 2}
).mode("overwrite").save(basePath)
spark.read.format("hudi").load(basePath).createOrReplaceTempView("hudi_trips_snapshot")
ds = spark.sql("select uuid, partitionpath, ts from hudi_trips_snapshot").limit(2)
hudi_hard_delete_options = {
    **base,
    "hoodie.datasource.write.operation": "delete",
    "hoodie.upsert.shuffle.parallelism": 2,
    "hoodie.insert.shuffle.parallelism": 2,
}
deletes = ds.collect()
hard_delete_df = spark.createDataFrame([tuple(r) for r in deletes], "uuid string, partitionpath string, ts long")
hard_delete_df.write.format("hudi").options(**hudi_hard_delete_options).mode("append").save(basePath)
assert spark.read.format("hudi").load(basePath).count() == 8

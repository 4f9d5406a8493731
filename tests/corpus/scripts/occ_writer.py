"""Optimistic concurrency control, with the lock of Hudi for several writers in one process."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
spark.createDataFrame([(1, 1)], "id int, ts int").write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
rows = spark.read.format("hudi").load(sys.argv[1])
assert [(row._hoodie_record_key, row.ts) for row in rows.collect()] == [("1", 1)]

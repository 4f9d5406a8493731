"""As in posts on insert modes: the options of SQL on a DataFrame, the policy for duplicates applies to SQL only."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
base = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.sql.insert.mode": "non-strict",
    "hoodie.sql.bulk.insert.enable": "false",
    "hoodie.spark.sql.insert.into.operation": "insert",
    "hoodie.merge.allow.duplicate.on.inserts": "true",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.write.num.retries.on.conflict.failures": "0",
    "hoodie.rollback.parallelism": "2",
    "hoodie.rollback.using.markers": "true",
    "hoodie.avro.schema.validate": "false",
    "hoodie.auto.commit": "true",
}
rows = spark.createDataFrame([("a", 1), ("b", 1)], "id string, ts long")
for policy in (
    {},
    {"hoodie.datasource.insert.dup.policy": "none"},
    {"hoodie.datasource.insert.dup.policy": "drop"},
    {"hoodie.datasource.write.insert.drop.duplicates": "true"},
):
    rows.write.format("hudi").options(**base).options(**policy).mode("append").save(path)
assert spark.read.format("hudi").load(path).count() == 6

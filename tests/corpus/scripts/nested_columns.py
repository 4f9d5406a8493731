"""Structs, arrays and maps, with a key in a nested column."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
df = spark.sql("select named_struct('id', 1, 'name', 'a') as user, array(1, 2) as items, map('k', 'v') as tags, 1L as ts")
opts = {
    "hoodie.table.name": "nested",
    "hoodie.datasource.write.recordkey.field": "user.id",
    "hoodie.datasource.write.precombine.field": "ts",
}
df.write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
row = spark.read.format("hudi").load(sys.argv[1]).first()
assert (row.user.name, row["items"], row.tags, row._hoodie_record_key) == ("a", [1, 2], {"k": "v"}, "1"), row

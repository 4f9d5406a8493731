"""A bucket index, set as in the posts about upserts without lookups."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.storage.layout.type": "BUCKET",
    "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    "hoodie.datasource.write.operation": "upsert",
}
df = spark.range(50).selectExpr("concat('o', id) as order_id", "1L as ts", "'2024-01-01' as dt", "id as qty")
df.write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
df.selectExpr("order_id", "2L as ts", "dt", "qty + 1 as qty").write.format("hudi").options(**opts).mode("append").save(
    sys.argv[1]
)
out = spark.read.format("hudi").load(sys.argv[1])
assert (out.count(), out.where("ts = 2").count()) == (50, 50)

"""In the manner of a cloud's lab: accounts and transfers with a non-partitioned table."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import penstock

spark = penstock.enable(SparkSession.builder.appName("bank").getOrCreate())
uri = sys.argv[1]
accounts = spark.range(100).select(
    F.col("id").alias("account"), F.lit(100.0).alias("balance"), F.current_timestamp().alias("updated")
)
conf = {
    "hoodie.table.name": "accounts",
    "hoodie.datasource.write.table.name": "accounts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.recordkey.field": "account",
    "hoodie.datasource.write.precombine.field": "updated",
    "hoodie.datasource.write.partitionpath.field": "",
}
accounts.write.format("hudi").options(**conf).option("hoodie.datasource.write.operation", "bulk_insert").mode("overwrite").save(
    uri
)
moved = (
    spark.read.format("hudi")
    .load(uri)
    .where("account in (1, 2)")
    .selectExpr("account", "balance + if(account = 1, -50, 50) as balance", "current_timestamp() as updated")
)
moved.write.format("hudi").options(**conf).mode("append").save(uri)
total = spark.read.format("hudi").load(uri).agg(F.sum("balance"), F.count("*")).first()
assert tuple(total) == (10000.0, 100), total

"""In the manner of serverless ETL jobs: arguments, one dict of options for everything, a job that can run again."""

import sys

from pyspark.context import SparkContext
from pyspark.sql.session import SparkSession

import penstock

sc = SparkContext.getOrCreate()
spark = penstock.enable(
    SparkSession.builder.config("spark.serializer", "org.apache.spark.serializer.KryoSerializer").getOrCreate()
)
logger = sc._jvm.org.apache.log4j.LogManager.getLogger(__name__) if hasattr(sc, "_jvm") else None
target = sys.argv[1]
commonConfig = {
    "className": "org.apache.hudi",
    "hoodie.datasource.hive_sync.use_jdbc": "false",
    "hoodie.datasource.write.precombine.field": "update_ts",
    "hoodie.datasource.write.recordkey.field": "pk",
    "hoodie.table.name": "cdc_table",
    "hoodie.consistency.check.enabled": "true",
}
partitionDataConfig = {
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
}
initLoadConfig = {"hoodie.bulkinsert.shuffle.parallelism": 3, "hoodie.datasource.write.operation": "bulk_insert"}
incrementalConfig = {
    "hoodie.upsert.shuffle.parallelism": 20,
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
    "hoodie.cleaner.commits.retained": 10,
}
full = spark.createDataFrame(
    [(i, "eu" if i % 2 else "us", 1, i * 1.0) for i in range(20)], "pk int, region string, update_ts long, amount double"
)
full.write.format("org.apache.hudi").options(**{**commonConfig, **partitionDataConfig, **initLoadConfig}).mode("Overwrite").save(
    target
)
delta = full.where("pk < 5").selectExpr("pk", "region", "2L as update_ts", "amount + 1000 as amount")
delta.write.format("org.apache.hudi").options(**{**commonConfig, **partitionDataConfig, **incrementalConfig}).mode("Append").save(
    target
)
out = spark.read.format("org.apache.hudi").load(target)
assert (out.count(), out.where("amount >= 1000").count()) == (20, 5)

"""In the manner of serverless ETL jobs: the path is an option, the index is global, and rows move to another partition."""

import sys
from datetime import datetime
from decimal import Decimal

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StringType, StructField, StructType, TimestampType

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
args = {"target": sys.argv[1], "table": "orders", "database": "sales"}
schema = StructType(
    [
        StructField("order_id", StringType(), False),
        StructField("status", StringType()),
        StructField("amount", DecimalType(18, 2)),
        StructField("modified", TimestampType()),
    ]
)
additional_options = {
    "path": args["target"],
    "hoodie.table.name": args["table"],
    "hoodie.database.name": args["database"],
    "hoodie.datasource.write.storage.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.precombine.field": "modified",
    "hoodie.datasource.write.partitionpath.field": "year,month",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.type": "GLOBAL_BLOOM",
    "hoodie.bloom.index.update.partition.path": "true",
    "hoodie.datasource.hive_sync.enable": "false",
    "hoodie.datasource.hive_sync.database": args["database"],
    "hoodie.datasource.hive_sync.table": args["table"],
    "hoodie.datasource.hive_sync.partition_fields": "year,month",
    "hoodie.datasource.hive_sync.use_jdbc": "false",
    "hoodie.datasource.hive_sync.mode": "hms",
    "hoodie.datasource.hive_sync.support_timestamp": "true",
    "hoodie.datasource.hive_sync.partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
    "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
    "hoodie.cleaner.commits.retained": 3,
}


def with_partitions(frame):
    return frame.withColumn("year", F.year("modified")).withColumn("month", F.date_format("modified", "MM"))


full = with_partitions(
    spark.createDataFrame([(f"o{i}", "new", Decimal("10.50"), datetime(2023, 1 + i % 2, 5, 10, 0, i)) for i in range(10)], schema)
)
full.write.format("hudi").options(**additional_options).mode("append").save()
moved = with_partitions(spark.createDataFrame([("o0", "shipped", None, datetime(2023, 7, 1))], schema))
moved.write.format("hudi").options(**additional_options).mode("append").save()
result = spark.read.format("hudi").option("path", args["target"]).load()
assert result.count() == 10
assert result.where("year = 2023 and month = '07'").select("order_id", "amount").collect() == [("o0", None)]
assert result.groupBy("_hoodie_partition_path").count().where("count = 4").count() == 1

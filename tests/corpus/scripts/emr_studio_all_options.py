"""As in the notebooks of a cloud's Hadoop service: every tuning option of the guide at once, read with a glob."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, to_timestamp

import penstock

spark = penstock.enable(
    SparkSession.builder.appName("hudi-job")
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.sql.hive.convertMetastoreParquet", "false")
    .getOrCreate()
)
tablePath = sys.argv[1] + "/"
config = {"table_name": "retail_transactions", "primary_key": "tran_id", "sort_key": "tran_date"}
inputDF = spark.createDataFrame(
    [(str(i), f"2019-04-0{1 + i % 3}", f"store {i % 4}", f"2019-04-01T12:00:0{i % 10}") for i in range(30)],
    ["tran_id", "tran_date", "store_id", "updated_at"],
).withColumn("updated_at", to_timestamp(col("updated_at")))
hudi_options = {
    "hoodie.table.name": config["table_name"],
    "hoodie.datasource.write.table.name": config["table_name"],
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.storage.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": config["primary_key"],
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.datasource.write.partitionpath.field": config["sort_key"],
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.hive_sync.enable": "false",
    "hoodie.datasource.hive_sync.table": config["table_name"],
    "hoodie.datasource.hive_sync.partition_fields": config["sort_key"],
    "hoodie.datasource.hive_sync.partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
    "hoodie.datasource.hive_sync.jdbcurl": "jdbc:hive2://localhost:10000",
    "hoodie.parquet.max.file.size": 128 * 1024 * 1024,
    "hoodie.parquet.small.file.limit": 100 * 1024 * 1024,
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.parquet.block.size": 120 * 1024 * 1024,
    "hoodie.logfile.max.size": 1024 * 1024 * 1024,
    "hoodie.logfile.data.block.format": "avro",
    "hoodie.compact.inline": True,
    "hoodie.compact.inline.max.delta.commits": 2,
    "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
    "hoodie.memory.merge.fraction": "0.8",
    "hoodie.memory.compaction.fraction": "0.8",
    "hoodie.copyonwrite.insert.split.size": 500000,
    "hoodie.copyonwrite.record.size.estimate": 1024,
    "hoodie.insert.shuffle.parallelism": 2,
    "hoodie.upsert.shuffle.parallelism": 2,
    "hoodie.delete.shuffle.parallelism": 2,
    "hoodie.finalize.write.parallelism": 2,
    "hoodie.markers.delete.parallelism": 2,
    "hoodie.write.status.storage.level": "MEMORY_AND_DISK_SER",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": 1,
    "hoodie.clean.async": "false",
    "hoodie.embed.timeline.server": "true",
    "hoodie.filesystem.view.type": "MEMORY",
    "hoodie.metadata.enable": "false",
    "hoodie.bloom.index.filter.type": "DYNAMIC_V0",
    "hoodie.bloom.index.use.metadata": "false",
    "hoodie.index.bloom.num_entries": 60000,
    "hoodie.index.bloom.fpp": "0.000000001",
    "hoodie.bloom.index.prune.by.ranges": "true",
    "hoodie.simple.index.parallelism": 2,
}
(inputDF.write.format("org.apache.hudi").options(**hudi_options).mode("overwrite").save(tablePath))
for round in range(3):
    changed = inputDF.where(col("tran_id").cast("int") < 5).withColumn("store_id", lit(f"moved {round}"))
    changed.write.format("org.apache.hudi").options(**hudi_options).mode("append").save(tablePath)
snapshot = spark.read.format("org.apache.hudi").load(tablePath + "*/*")
snapshot.createOrReplaceTempView("hudi_trips_snapshot")
assert spark.sql("select count(*) as n from hudi_trips_snapshot where store_id = 'moved 2'").first().n == 5
assert spark.read.format("hudi").load(tablePath).where("tran_date = '2019-04-01'").count() == 10

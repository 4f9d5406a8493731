"""A job whose catalog sync is configured in full and switched off in the test environment, on a merge-on-read table."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = (
    SparkSession.builder.config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.sql.hive.convertMetastoreParquet", "false")
    .config("spark.sql.legacy.pathOptionBehavior.enabled", "true")
    .getOrCreate()
)
spark = penstock.enable(spark)
args = {"database_name": "lake", "table_name": "customers", "target": sys.argv[1]}
additional_options = {
    "hoodie.table.name": args["table_name"],
    "hoodie.database.name": args["database_name"],
    "hoodie.datasource.write.storage.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "customer_id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "state",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "hoodie.index.type": "BLOOM",
    "hoodie.bloom.index.bucketized.checking": "true",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.datasource.meta.sync.enable": "false",
    "hoodie.datasource.hive_sync.enable": "false",
    "hoodie.meta.sync.client.tool.class": "com.example.sync.DataCatalogSyncTool",
    "hoodie.datasource.hive_sync.mode": "hms",
    "hoodie.datasource.hive_sync.database": args["database_name"],
    "hoodie.datasource.hive_sync.table": args["table_name"],
    "hoodie.datasource.hive_sync.partition_fields": "state",
    "hoodie.datasource.hive_sync.partition_extractor_class": "com.example.sync.StateExtractor",
    "hoodie.datasource.hive_sync.base_file_format": "ORC",
    "hoodie.datasource.hive_sync.use_jdbc": "false",
    "hoodie.datasource.hive_sync.support_timestamp": "true",
}
schema = "customer_id long, name string, state string, ts long"
for ts in range(1, 5):
    batch = [(key, f"customer {key} v{ts}", "CA" if key % 2 else "NY", ts) for key in range(ts, ts + 4)]
    spark.createDataFrame(batch, schema).write.format("hudi").options(**additional_options).mode("append").save(args["target"])
customers = spark.read.format("hudi").load(args["target"])
assert customers.count() == 7
assert {row.customer_id: row.name[-2:] for row in customers.collect()} == {n: f"v{min(n, 4)}" for n in range(1, 8)}
assert customers.where("state = 'NY'").count() == 3

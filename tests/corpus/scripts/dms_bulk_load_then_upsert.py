"""A full load by bulk_insert, then changes by upsert, with one dictionary of options for both kinds of table and every index."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
target = sys.argv[1]
one_for_all = {
    "hoodie.table.name": "accounts",
    "hoodie.datasource.write.recordkey.field": "account_id",
    "hoodie.datasource.write.precombine.field": "seen",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.row.writer.enable": "true",
    "hoodie.logfile.data.block.format": "hfile",
    "hoodie.index.hbase.zkquorum": "zookeeper",
    "hoodie.index.hbase.zkport": "2181",
    "hoodie.index.hbase.security.authentication": "kerberos",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.parquet.max.file.size": "125829120",
    "hoodie.parquet.compression.codec": "zstd",
}
full_load = {**one_for_all, "hoodie.datasource.write.operation": "bulk_insert", "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
incremental = {
    **one_for_all,
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.bulkinsert.user.defined.partitioner.class": "com.example.AccountPartitioner",
    "hoodie.index.type": "GLOBAL_SIMPLE",
}
schema = "account_id int, balance decimal(12,2), seen timestamp"
spark.range(100).selectExpr("int(id) account_id", "cast(id as decimal(12,2)) balance", "timestamp'2026-01-01' seen").write.format(
    "hudi"
).options(**full_load).mode("overwrite").save(target)
spark.range(90, 110).selectExpr(
    "int(id) account_id", "cast(-id as decimal(12,2)) balance", "timestamp'2026-01-02' seen"
).write.format("hudi").options(**incremental).mode("append").save(target)
accounts = spark.read.format("hudi").load(target)
assert accounts.count() == 110
assert accounts.where("balance < 0").count() == 20

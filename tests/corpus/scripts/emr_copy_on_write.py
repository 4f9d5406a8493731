"""As in the guides of a cloud's Hadoop service: a small table with hive-style partitions; hive sync is left out."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.config("spark.sql.hive.convertMetastoreParquet", "false").getOrCreate())
inputDF = spark.createDataFrame(
    [
        ("100", "2015-01-01", "2015-01-01T13:51:39.340396Z"),
        ("101", "2015-01-01", "2015-01-01T12:14:58.597216Z"),
        ("102", "2015-01-01", "2015-01-01T13:51:40.417052Z"),
        ("103", "2015-01-01", "2015-01-01T13:51:40.519832Z"),
        ("104", "2015-01-02", "2015-01-01T12:15:00.512679Z"),
        ("105", "2015-01-02", "2015-01-01T13:51:42.248818Z"),
    ],
    ["id", "creation_date", "last_update_time"],
)
hudiOptions = {
    "hoodie.table.name": "my_hudi_table",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "creation_date",
    "hoodie.datasource.write.precombine.field": "last_update_time",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.hive_sync.enable": "false",
}
inputDF.write.format("org.apache.hudi").option("hoodie.datasource.write.operation", "insert").options(**hudiOptions).mode(
    "overwrite"
).save(sys.argv[1])

updateDF = inputDF.where("id = '100'").withColumn("last_update_time", inputDF.id)
updateDF.write.format("org.apache.hudi").option("hoodie.datasource.write.operation", "upsert").options(**hudiOptions).mode(
    "append"
).save(sys.argv[1])
inputDF.limit(1).write.format("org.apache.hudi").option("hoodie.datasource.write.operation", "upsert").option(
    "hoodie.datasource.write.payload.class", "org.apache.hudi.common.model.EmptyHoodieRecordPayload"
).options(**hudiOptions).mode("append").save(sys.argv[1])
snapshotQueryDF = spark.read.format("org.apache.hudi").load(sys.argv[1] + "/*/*")
assert snapshotQueryDF.count() == 5
assert snapshotQueryDF.select("_hoodie_partition_path").distinct().count() == 2

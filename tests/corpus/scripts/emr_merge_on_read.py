"""As in the guides of a cloud's Hadoop service: a merge-on-read table, read in both ways."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
hudiOptions = {
    "hoodie.table.name": "my_hudi_table",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "creation_date",
    "hoodie.datasource.write.precombine.field": "last_update_time",
    "hoodie.index.type": "BLOOM",
    "hoodie.compact.inline": "false",
    "hoodie.cleaner.commits.retained": "10",
    "hoodie.keep.min.commits": "20",
    "hoodie.keep.max.commits": "30",
}
df = spark.createDataFrame([(str(i), "2015-01-01", i) for i in range(5)], ["id", "creation_date", "last_update_time"])
df.write.format("hudi").options(**hudiOptions).mode("overwrite").save(path)
df.selectExpr("id", "creation_date", "last_update_time + 100 as last_update_time").where("id < '2'").write.format("hudi").options(
    **hudiOptions
).mode("append").save(path)
assert spark.read.format("hudi").load(path).where("last_update_time >= 100").count() == 2
ro = spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized").load(path)
assert ro.where("last_update_time >= 100").count() == 0

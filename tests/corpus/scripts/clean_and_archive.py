"""Retention as people set it, over more commits than it keeps."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.async": "false",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.cleaner.commits.retained": "1",
}
for ts in range(5):
    spark.createDataFrame([(1, ts)], "id int, ts int").write.format("hudi").options(**opts).mode("append").save(sys.argv[1])
assert [r.ts for r in spark.read.format("hudi").load(sys.argv[1]).collect()] == [4]

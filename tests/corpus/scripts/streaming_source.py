"""A stream that reads a Hudi table: not supported yet."""

# Writes a table first.
# Ends in: Unsupported: hudi
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
spark.createDataFrame([(1, 1)], "id int, ts int").write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
spark.readStream.format("hudi").load(sys.argv[1])

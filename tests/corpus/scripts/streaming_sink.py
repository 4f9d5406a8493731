"""A stream that is written with format("hudi"): not supported yet."""

# Ends in: Unsupported: foreachBatch
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "stream",
    "hoodie.datasource.write.recordkey.field": "value",
    "hoodie.datasource.write.precombine.field": "timestamp",
}
rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
rate.writeStream.format("hudi").options(**opts).option("checkpointLocation", sys.argv[1] + "-checkpoint").outputMode(
    "append"
).start(sys.argv[1])

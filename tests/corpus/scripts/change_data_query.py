"""A query of change data: not supported yet."""

# Writes a table first.
# Ends in: Unsupported: hoodie.datasource.query.incremental.format
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
spark.read.format("hudi").options(
    **{
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": 0,
    }
).load(sys.argv[1]).show()

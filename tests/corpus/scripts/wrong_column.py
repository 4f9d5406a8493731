"""The key column is misspelled: one error that names the option and the column."""

# Ends in: hoodie.datasource.write.recordkey.field.*user_idd
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "user_idd",
    "hoodie.datasource.write.precombine.field": "ts",
}
spark.createDataFrame([(1, 1)], "user_id int, ts int").write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])

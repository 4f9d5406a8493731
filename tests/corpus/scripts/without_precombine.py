"""No ordering field: inserts work, and the later row of a key wins."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.operation": "insert"}
spark.createDataFrame([(1, "a")], "id int, v string").write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
assert spark.read.format("hudi").load(sys.argv[1]).count() == 1

"""partitionBy of the DataFrame writer in place of the option."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
df = spark.createDataFrame([(1, 1, "a"), (2, 1, "b")], "id int, ts int, dt string")
df.write.format("hudi").partitionBy("dt").options(**opts).mode("overwrite").save(sys.argv[1])
assert spark.read.format("hudi").load(sys.argv[1]).where("dt = 'b'").count() == 1

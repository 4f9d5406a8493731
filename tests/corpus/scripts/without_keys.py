"""No record key at all: keys are generated, and rows are appended."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
logs = spark.createDataFrame([("x",), ("x",), ("y",)], "line string")
for _ in range(2):
    logs.write.format("hudi").option("hoodie.table.name", "logs").mode("append").save(sys.argv[1])
assert spark.read.format("hudi").load(sys.argv[1]).count() == 6

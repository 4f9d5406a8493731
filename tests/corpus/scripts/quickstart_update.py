"""The quickstart: update rows by reading, changing and writing them."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
basePath = sys.argv[1]
options = {
    "hoodie.table.name": "trips_table",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
}
rows = [(1, "a", "rider-A", 10.0, "x"), (2, "b", "rider-D", 20.0, "x"), (3, "c", "rider-D", 30.0, "y")]
df = spark.createDataFrame(rows, "ts long, uuid string, rider string, fare double, city string")
df.write.format("hudi").options(**options).mode("overwrite").save(basePath)

updatesDf = spark.read.format("hudi").load(basePath).filter("rider == 'rider-D'").withColumn("fare", col("fare") * 10)
updatesDf.write.format("hudi").option("hoodie.datasource.write.operation", "upsert").options(**options).mode("append").save(
    basePath
)
fares = {r.uuid: r.fare for r in spark.read.format("hudi").load(basePath).collect()}
assert fares == {"a": 10.0, "b": 200.0, "c": 300.0}, fares
assert spark.read.format("hudi").load(basePath).where(col("fare") == lit(10.0)).count() == 1

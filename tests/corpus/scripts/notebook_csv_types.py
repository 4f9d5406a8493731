"""CSV files whose types change from load to load: ints become strings."""

import os
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
folder = sys.argv[1] + "-csv"
os.makedirs(folder)
for name, text in (("1.csv", "id,ts,zip\n1,1,10115\n2,1,75001\n"), ("2.csv", "id,ts,zip\n2,2,SW1A\n3,2,20095\n")):
    with open(f"{folder}/{name}", "w") as file:
        file.write(text)
opts = {
    "hoodie.table.name": "addresses",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
for name in ("1.csv", "2.csv"):
    df = spark.read.option("header", True).option("inferSchema", True).csv(f"{folder}/{name}")
    df.write.format("hudi").options(**opts).mode("append").save(sys.argv[1])
rows = sorted((r.id, r.zip) for r in spark.read.format("hudi").load(sys.argv[1]).collect())
assert rows == [(1, "10115"), (2, "SW1A"), (3, "20095")], rows

"""pandas in, pandas out."""

import sys

import pandas
from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
frame = pandas.DataFrame({"id": [1, 2, 3], "ts": [1, 1, 1], "price": [1.5, 2.5, None]})
opts = {
    "hoodie.table.name": "prices",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
spark.createDataFrame(frame).write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
back = spark.read.format("hudi").load(sys.argv[1]).select("id", "price").orderBy("id").toPandas()
assert list(back["id"]) == [1, 2, 3]

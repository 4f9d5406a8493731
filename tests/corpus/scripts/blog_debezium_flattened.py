"""Flattened changes of Debezium, deduplicated in Spark before the write; deletes by `_hoodie_is_deleted`."""

import sys

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
changes = spark.createDataFrame(
    [("c", 1, "a", 10), ("u", 1, "b", 11), ("c", 2, "x", 12), ("d", 2, None, 13), ("r", 3, "z", 14)],
    "op string, id int, v string, lsn long",
)
latest = changes.withColumn("n", F.row_number().over(Window.partitionBy("id").orderBy(F.desc("lsn")))).where("n = 1").drop("n")
out = latest.withColumn("_hoodie_is_deleted", F.col("op") == "d").drop("op")
options = {
    "hoodie.table.name": "pg",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "lsn",
}
out.write.format("hudi").options(**options).mode("append").save(path)
assert sorted(r.id for r in spark.read.format("hudi").load(path).collect()) == [1, 3]
spark.createDataFrame([(3, "z", 15, True)], "id int, v string, lsn long, _hoodie_is_deleted boolean").write.format(
    "hudi"
).options(**options).mode("append").save(path)
assert spark.read.format("hudi").load(path).count() == 1

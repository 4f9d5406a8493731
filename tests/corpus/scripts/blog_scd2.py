"""History of a dimension: close the current row, add a new one, both in one upsert."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
options = {
    "hoodie.table.name": "dim_customer",
    "hoodie.datasource.write.recordkey.field": "customer_id,eff_start_ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "hoodie.datasource.write.partitionpath.field": "actv_ind",
    "hoodie.datasource.write.precombine.field": "eff_end_ts",
    "hoodie.index.type": "GLOBAL_BLOOM",
    "hoodie.bloom.index.update.partition.path": "true",
}
first = spark.createDataFrame(
    [("c1", "Berlin", 1, 9999, 1), ("c2", "Paris", 1, 9999, 1)],
    "customer_id string, city string, eff_start_ts int, eff_end_ts int, actv_ind int",
)
first.write.format("hudi").options(**options).mode("overwrite").save(path)
current = spark.read.format("hudi").load(path).where("actv_ind = 1 and customer_id = 'c1'")
closed = current.select("customer_id", "city", "eff_start_ts", F.lit(10000).alias("eff_end_ts"), F.lit(0).alias("actv_ind"))
opened = closed.select(
    "customer_id",
    F.lit("Rome").alias("city"),
    F.lit(20).alias("eff_start_ts"),
    F.lit(9999).alias("eff_end_ts"),
    F.lit(1).alias("actv_ind"),
)
closed.unionByName(opened).write.format("hudi").options(**options).mode("append").save(path)
rows = sorted((r.customer_id, r.city, r.actv_ind) for r in spark.read.format("hudi").load(path).collect())
assert rows == [("c1", "Berlin", 0), ("c1", "Rome", 1), ("c2", "Paris", 1)], rows

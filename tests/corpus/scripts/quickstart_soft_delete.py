"""The quickstart: soft deletes set all columns but the key to null."""

import sys
from functools import reduce

from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
}
df = spark.createDataFrame(
    [(1, "a", "x", 5.0, "r"), (1, "b", "x", 6.0, "s")], "ts long, uuid string, city string, fare double, rider string"
)
df.write.format("hudi").options(**opts).mode("overwrite").save(path)
snapshot = spark.read.format("hudi").load(path)
meta_columns = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]
nullify = [(f.name, f.dataType) for f in snapshot.schema.fields if f.name not in [*meta_columns, "ts", "uuid", "city"]]
soft = reduce(lambda d, c: d.withColumn(c[0], lit(None).cast(c[1])), nullify, snapshot.where("uuid = 'a'").drop(*meta_columns))
soft.write.format("hudi").options(**opts).option("hoodie.datasource.write.operation", "upsert").mode("append").save(path)
assert spark.read.format("hudi").load(path).where("rider is null").count() == 1
assert spark.read.format("hudi").load(path).count() == 2

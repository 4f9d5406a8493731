"""Change files of a database replication service: the column Op says what happened."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
conf = {
    "hoodie.table.name": "retail",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload",
    "hoodie.upsert.shuffle.parallelism": 2,
}
schema = "Op string, id int, name string, updated_at int"
spark.createDataFrame([("I", 1, "a", 1), ("I", 2, "b", 1), ("I", 3, "c", 1)], schema).write.format("hudi").options(**conf).mode(
    "overwrite"
).save(path)
spark.createDataFrame([("U", 1, "A", 2), ("D", 2, "b", 2)], schema).write.format("hudi").options(**conf).mode("append").save(path)
assert sorted((r.id, r.name) for r in spark.read.format("hudi").load(path).collect()) == [(1, "A"), (3, "c")]

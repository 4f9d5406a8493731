"""As in posts on late data: event-time ordering in memory and storage, and the row with the later event time wins."""

import sys

from pyspark.sql import Row, SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
hudi_options = {
    "hoodie.table.name": "late",
    "hoodie.datasource.write.recordkey.field": "emp_id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.payload.event.time.field": "ts",
    "hoodie.payload.ordering.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.combine.before.insert": "true",
    "hoodie.combine.before.upsert": "true",
}
first = [Row(emp_id=1, name="anna", salary=100.0, ts=20), Row(emp_id=2, name="bob", salary=90.0, ts=20)]
late = [
    Row(emp_id=1, name="ANNA", salary=1.0, ts=10),
    Row(emp_id=2, name="BOB", salary=95.0, ts=30),
    Row(emp_id=2, name="B", salary=5.0, ts=25),
]
for rows in (first, late):
    spark.createDataFrame(rows).write.format("hudi").options(**hudi_options).mode("append").save(path)
found = spark.read.format("hudi").load(path).orderBy("emp_id").select("name", "salary").collect()
assert [tuple(row) for row in found] == [("anna", 100.0), ("BOB", 95.0)], found

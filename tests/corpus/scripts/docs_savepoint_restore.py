"""As in the guide to disaster recovery: a savepoint, a bad batch, and the table restored."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
options = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "partitionpath",
}
columns = "uuid string, partitionpath string, ts long, fare double"
good = spark.createDataFrame([(f"k{i}", f"americas/brazil/{i % 2}", 1, 1.0) for i in range(6)], columns)
good.write.format("hudi").options(**options).mode("overwrite").save(path)
table = penstock.Table.open(path)
saved = table.savepoint(user="ops", comment="before the release")
good.selectExpr("uuid", "partitionpath", "2L as ts", "-1.0D as fare").write.format("hudi").options(**options).mode("append").save(
    path
)
assert spark.read.format("hudi").load(path).where("fare < 0").count() == 6
table.restore(saved.instant)
assert spark.read.format("hudi").load(path).where("fare < 0").count() == 0
assert spark.read.format("hudi").load(path + "/americas/brazil/0").count() == 3

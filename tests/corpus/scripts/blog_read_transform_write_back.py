"""As in posts on backfills: a table is read, joined with a correction, and written back into itself."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast, coalesce, col, current_timestamp, input_file_name, lit

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
options = {
    "hoodie.table.name": "users",
    "hoodie.datasource.write.recordkey.field": "user_id",
    "hoodie.datasource.write.precombine.field": "updated",
    "hoodie.datasource.write.partitionpath.field": "country:SIMPLE",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "true",
}
users = spark.createDataFrame(
    [(i, f"user {i}", None if i % 3 else "de") for i in range(9)], "user_id int, name string, country string"
)
users.withColumn("updated", current_timestamp()).write.format("hudi").options(**options).mode("overwrite").save(path)
fixes = spark.createDataFrame([(1, "fr"), (2, "it")], "user_id int, fixed string")
current = spark.read.format("hudi").load(path)
assert current.withColumn("file", input_file_name()).where("file like '%parquet%'").count() == 9
hoodie_columns = [name for name in current.columns if name.startswith("_hoodie")]
repaired = (
    current.drop(*hoodie_columns)
    .join(broadcast(fixes), "user_id", "left")
    .withColumn("country", coalesce(col("fixed"), col("country"), lit("unknown")))
    .withColumn("updated", current_timestamp())
    .drop("fixed")
)
repaired.write.format("hudi").options(**options).mode("append").save(path)
after = spark.read.format("hudi").load(path)
assert after.count() == 9
assert {row.country: row["count"] for row in after.groupBy("country").count().collect()} == {
    "de": 3,
    "fr": 1,
    "it": 1,
    "unknown": 4,
}
after.drop(*hoodie_columns).where("country = 'unknown'").write.format("hudi").options(
    **{**options, "hoodie.datasource.write.operation": "delete"}
).mode("append").save(path)
assert spark.read.format("hudi").load(path).count() == 5

"""SQL over temporary views of Hudi tables: joins, windows and filters."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
for name in ("orders", "customers"):
    opts = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "id",
    }
    df = spark.range(10).selectExpr("id", "id % 3 as customer")
    df.write.format("hudi").options(**opts).mode("overwrite").save(f"{sys.argv[1]}-{name}")
    spark.read.format("hudi").load(f"{sys.argv[1]}-{name}").createOrReplaceTempView(f"v_{name}")
found = spark.sql(
    "select o.id, row_number() over (partition by c.customer order by o.id) as n from v_orders o join v_customers c on o.customer = c.id where c.id < 2"
)
assert found.count() == 7

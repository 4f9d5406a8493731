"""As in a team's shared configuration: all features of production are configured, and switched off for this job."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.appName("etl").getOrCreate())
table_path = sys.argv[1]
common = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.datasource.write.partitionpath.field": "country",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.metadata.enable": "true",
}
metrics = {
    "hoodie.metrics.on": "false",
    "hoodie.metrics.reporter.type": "CLOUDWATCH",
    "hoodie.metrics.cloudwatch.namespace": "hudi",
}
callback = {
    "hoodie.write.commit.callback.on": "false",
    "hoodie.write.commit.callback.class": "com.example.hudi.SlackCallback",
}
clustering = {
    "hoodie.clustering.inline": "false",
    "hoodie.clustering.async.enabled": "false",
    "hoodie.clustering.plan.strategy.class": "com.example.hudi.OurPlanStrategy",
    "hoodie.clustering.updates.strategy": "com.example.hudi.OurUpdateStrategy",
    "hoodie.clustering.plan.strategy.sort.columns": "order_id",
}
settings = {**common, **metrics, **callback, **clustering}
orders = [(1, "de", 10.0, 1), (2, "fr", 20.0, 1), (3, "de", 30.0, 1)]
columns = "order_id int, country string, amount double, updated_at int"
spark.createDataFrame(orders, columns).write.format("hudi").options(**settings).mode("overwrite").save(table_path)
changes = spark.createDataFrame([(2, "fr", 25.0, 2), (4, "it", 40.0, 2)], columns)
changes.write.format("hudi").options(**settings).option("hoodie.datasource.write.operation", "upsert").mode("append").save(
    table_path
)
found = {row.order_id: row.amount for row in spark.read.format("hudi").load(table_path).collect()}
assert found == {1: 10.0, 2: 25.0, 3: 30.0, 4: 40.0}, found

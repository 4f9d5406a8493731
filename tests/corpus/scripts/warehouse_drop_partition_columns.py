"""As in guides for a cloud warehouse: partition columns are not stored in the files."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
options = {
    "hoodie.table.name": "bq",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.drop.partition.columns": "true",
    "hoodie.partition.metafile.use.base.format": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.row.writer.enable": "true",
}
rows = spark.createDataFrame([(i, i, f"2024-01-0{1 + i % 3}") for i in range(9)], "id int, ts long, day string")
rows.write.format("hudi").options(**options).mode("overwrite").save(path)
assert spark.read.format("hudi").load(path).where("day = '2024-01-02'").count() == 3

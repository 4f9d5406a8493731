"""Two partition columns of two kinds by CustomKeyGenerator."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "sales",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "country:SIMPLE,ts:TIMESTAMP",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
    "hoodie.deltastreamer.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.deltastreamer.keygen.timebased.output.dateformat": "yyyy-MM",
    "hoodie.deltastreamer.keygen.timebased.timezone": "GMT",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
spark.createDataFrame([(1, "de", 1704067200), (2, "fr", 1706745600)], "id int, country string, ts long").write.format(
    "hudi"
).options(**opts).mode("overwrite").save(sys.argv[1])
paths = sorted(r[0] for r in spark.read.format("hudi").load(sys.argv[1]).select("_hoodie_partition_path").collect())
assert paths == ["country=de/ts=2024-01", "country=fr/ts=2024-02"], paths

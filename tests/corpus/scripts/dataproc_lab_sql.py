"""In the manner of a cloud's labs: CSV with a header in, SQL over views, partitionBy on the writer, counts out."""

import os
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.appName("lab").getOrCreate())
base = sys.argv[1]
os.makedirs(base)
with open(f"{base}/trips.csv", "w") as csv:
    csv.write("trip_id,pickup,fare,tip,flag\n")
    for i in range(20):
        csv.write(f"{i},2020-01-{1 + i % 4:02}T10:00:00,{i}.5,,{'Y' if i % 2 else 'N'}\n")
trips = spark.read.option("header", "true").option("inferSchema", "true").csv(f"{base}/trips.csv")
trips.createOrReplaceTempView("raw")
cleaned = spark.sql(
    "select trip_id, cast(pickup as timestamp) pickup, to_date(pickup) as pickup_date, fare, tip, flag = 'Y' as paid from raw"
)
(
    cleaned.write.format("hudi")
    .option("hoodie.table.name", "trips")
    .option("hoodie.datasource.write.recordkey.field", "trip_id")
    .option("hoodie.datasource.write.partitionpath.field", "pickup_date")
    .option("hoodie.datasource.write.precombine.field", "pickup")
    .option("hoodie.datasource.write.operation", "bulk_insert")
    .option("hoodie.bulkinsert.sort.mode", "PARTITION_SORT")
    .option("hoodie.bulkinsert.shuffle.parallelism", "2")
    .option("hoodie.datasource.write.hive_style_partitioning", "true")
    .mode("overwrite")
    .save(f"{base}/table")
)
spark.read.format("hudi").load(f"{base}/table").createOrReplaceTempView("trips")
spark.sql("select pickup_date, count(*) n, sum(fare) total, count(tip) tips from trips group by 1 order by 1").show()
assert spark.sql("select count(*) n from trips where pickup_date = date'2020-01-02'").first().n == 5
assert spark.sql("select count(distinct _hoodie_partition_path) n from trips").first().n == 4

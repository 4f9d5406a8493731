"""The quickstart: time travel by instant, by date and by time of day."""

import sys
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
for number in range(3):
    spark.createDataFrame([(number, number)], "id int, ts int").write.format("hudi").options(**opts).mode("append").save(path)
commits = sorted({r[0] for r in spark.read.format("hudi").load(path).select("_hoodie_commit_time").collect()})
assert len(commits) == 3
assert spark.read.format("hudi").option("as.of.instant", commits[1]).load(path).count() == 2
moment = datetime.strptime(commits[0], "%Y%m%d%H%M%S%f") + timedelta(milliseconds=1)
assert spark.read.format("hudi").option("as.of.instant", moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]).load(path).count() == 1
assert (
    spark.read.format("hudi")
    .option("as.of.instant", (datetime.now() + timedelta(days=2)).strftime("%Y-%m-%d"))
    .load(path)
    .count()
    == 3
)

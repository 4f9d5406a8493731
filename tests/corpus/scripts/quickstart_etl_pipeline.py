"""In the manner of pipelines in blogs: a bronze table is read incrementally into a silver one, with a saved checkpoint."""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import upper

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
base = sys.argv[1]
bronze, silver, checkpoint = f"{base}/bronze", f"{base}/silver", f"{base}/checkpoint.json"
os.makedirs(base, exist_ok=True)


def hudi(name, **more):
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "country",
        **more,
    }


def upsert(rows, name, path):
    frame = spark.createDataFrame(rows, "uuid string, country string, name string, ts long") if isinstance(rows, list) else rows
    frame.write.format("hudi").options(**hudi(name)).mode("append").save(path)


def read_changes():
    begin = "0"
    if os.path.exists(checkpoint):
        with open(checkpoint) as file:
            begin = json.load(file)["commit"]
    return (
        spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.read.begin.instanttime", begin)
        .option("hoodie.datasource.read.incr.path.glob", "/*")
        .option("hoodie.datasource.read.incr.fallback.fulltablescan.enable", "true")
        .load(bronze)
    )


upsert([("1", "de", "anna", 1), ("2", "fr", "bob", 1)], "bronze", bronze)
for more in ([], [("2", "fr", "bobby", 2), ("3", "de", "carl", 2)], [("1", "de", "anne", 3)]):
    if more:
        upsert(more, "bronze", bronze)
    changes = read_changes()
    assert changes.count() == (len(more) or 2)
    clean = changes.select("uuid", "country", upper("name").alias("name"), "ts")
    upsert(clean, "silver", silver)
    latest = changes.selectExpr("max(_hoodie_commit_time)").first()[0]
    with open(checkpoint, "w") as file:
        json.dump({"commit": latest}, file)
assert read_changes().count() == 0
rows = spark.read.format("hudi").load(silver).orderBy("uuid").select("name").collect()
assert [row.name for row in rows] == ["ANNE", "BOBBY", "CARL"]

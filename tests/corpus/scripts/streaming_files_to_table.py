"""As in the streaming guide: JSON files as they arrive, written with every option of the guide."""

import json
import os
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
base = sys.argv[1]
source, target, checkpoint = f"{base}/in", f"{base}/out", f"{base}/checkpoint"
os.makedirs(source)
hudi_streaming_options = {
    "hoodie.table.name": "stream",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.table.name": "stream",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.upsert.shuffle.parallelism": 2,
    "hoodie.insert.shuffle.parallelism": 2,
    "hoodie.datasource.write.streaming.ignore.failed.batch": "false",
    "hoodie.datasource.write.streaming.retry.count": "3",
    "hoodie.datasource.write.streaming.retry.interval.ms": "2000",
    "checkpointLocation": checkpoint,
}
for number in range(2):
    with open(f"{source}/{number}.json", "w") as file:
        json.dump({"id": "a", "city": "berlin", "ts": number}, file)
        file.write("\n")
        json.dump({"id": f"n{number}", "city": "paris", "ts": 1}, file)
    query = (
        spark.readStream.schema("id string, city string, ts long")
        .json(source)
        .writeStream.format("hudi")
        .options(**hudi_streaming_options)
        .outputMode("append")
        .trigger(availableNow=True)
        .start(target)
    )
    query.awaitTermination()
assert spark.read.format("hudi").load(target).count() == 3
assert spark.read.format("hudi").load(target).where("id = 'a'").first().ts == 1

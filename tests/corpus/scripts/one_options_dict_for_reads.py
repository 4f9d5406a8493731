"""One dictionary for all reads of a job: snapshot, read-optimized and incremental, with options of each in all."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
write = {
    "hoodie.table.name": "clicks",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}
spark.createDataFrame([(1, 1), (2, 1)], "id int, ts int").write.format("hudi").options(**write).mode("overwrite").save(path)
spark.createDataFrame([(2, 2)], "id int, ts int").write.format("hudi").options(**write).mode("append").save(path)
read = {
    "hoodie.metadata.enable": "true",
    "hoodie.enable.data.skipping": "true",
    "hoodie.file.index.enable": "true",
    "hoodie.datasource.query.incremental.format": "cdc",
    "hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME",
    "hoodie.schema.on.read.enable": "true",
}
snapshot = spark.read.format("hudi").options(**read).option("hoodie.datasource.query.type", "snapshot").load(path)
assert sorted((row.id, row.ts) for row in snapshot.collect()) == [(1, 1), (2, 2)]
optimized = spark.read.format("hudi").options(**read).option("hoodie.datasource.query.type", "read_optimized").load(path)
assert sorted((row.id, row.ts) for row in optimized.collect()) == [(1, 1), (2, 1)]
first, last = sorted(row[0] for row in snapshot.select("_hoodie_commit_time").distinct().collect())
changes = {**read, "hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": first}
changes["hoodie.datasource.query.incremental.format"] = "latest_state"
changes["hoodie.read.timeline.holes.resolution.policy"] = "BLOCK"
assert [row.id for row in spark.read.format("hudi").options(**changes).load(path).collect()] == [2]

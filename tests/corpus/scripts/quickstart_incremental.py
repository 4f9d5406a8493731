"""The quickstart: incremental query from the second to last commit on."""

import sys

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
spark.read.format("hudi").load(path).createOrReplaceTempView("t_snapshot")
commits = [
    row[0]
    for row in spark.sql("select distinct(_hoodie_commit_time) as commitTime from t_snapshot order by commitTime")
    .limit(50)
    .collect()
]
beginTime = commits[len(commits) - 2]
incremental_read_options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": beginTime}
changes = spark.read.format("hudi").options(**incremental_read_options).load(path)
assert [r.id for r in changes.collect()] == [2]
point = {
    **incremental_read_options,
    "hoodie.datasource.read.begin.instanttime": "000",
    "hoodie.datasource.read.end.instanttime": beginTime,
}
assert spark.read.format("hudi").options(**point).load(path).count() == 2

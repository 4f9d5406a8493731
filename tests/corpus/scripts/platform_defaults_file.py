"""The defaults file of a platform, passed to every job: lifetime, bootstrap, backups and a service manager that are not there."""

import sys

from pyspark.sql import SparkSession

import penstock

DEFAULTS = """
hoodie.datasource.write.keygenerator.class=
hoodie.datasource.write.hive_style_partitioning=false
hoodie.rollback.instant.backup.enabled=true
hoodie.rollback.instant.backup.dir=.rollback_backup
hoodie.table.service.manager.enabled=true
hoodie.table.service.manager.uris=http://manager:9091
hoodie.partition.ttl.inline=false
hoodie.partition.ttl.strategy.class=com.example.Lifetime
hoodie.bootstrap.base.path=s3://lake/old
hoodie.cleaner.policy=KEEP_LATEST_COMMITS
hoodie.cleaner.commits.retained=2
hoodie.keep.min.commits=3
hoodie.keep.max.commits=4
hoodie.embed.timeline.server=true
hoodie.filesystem.view.type=EMBEDDED_KV_STORE
hoodie.memory.spillable.map.path=/tmp
hoodie.archive.async=false
hoodie.fail.on.timeline.archiving=true
"""
spark = penstock.enable(SparkSession.builder.getOrCreate())
defaults = dict(line.split("=", 1) for line in DEFAULTS.split())
job = {
    "hoodie.table.name": "readings",
    "hoodie.datasource.write.recordkey.field": "sensor",
    "hoodie.datasource.write.precombine.field": "at",
}
for at in range(6):
    readings = spark.createDataFrame([("s1", at, 1.0 * at), (f"s{at + 2}", at, 0.5)], "sensor string, at long, degrees double")
    readings.write.format("hudi").options(**defaults, **job).mode("append").save(sys.argv[1])
gone = spark.createDataFrame([("s2", 9)], "sensor string, at long")
gone.write.format("hudi").options(**defaults, **job).option("hoodie.datasource.write.operation", "delete").mode("append").save(
    sys.argv[1]
)
found = {row.sensor: row.degrees for row in spark.read.format("hudi").load(sys.argv[1]).collect()}
assert found == {"s1": 5.0, "s3": 0.5, "s4": 0.5, "s5": 0.5, "s6": 0.5, "s7": 0.5}, found

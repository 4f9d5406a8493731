"""A lock provider is set in a job that runs alone, as many templates do."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
opts = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
    "hoodie.write.lock.zookeeper.url": "localhost",
    "hoodie.write.lock.zookeeper.port": "2181",
    "hoodie.write.lock.zookeeper.lock_key": "t",
    "hoodie.write.lock.zookeeper.base_path": "/hudi",
}
spark.createDataFrame([(1, 1)], "id int, ts int").write.format("hudi").options(**opts).mode("overwrite").save(sys.argv[1])
assert spark.read.format("hudi").load(sys.argv[1]).count() == 1

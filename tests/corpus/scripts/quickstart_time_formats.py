"""The quickstart: time travel with each form of an instant that the page shows."""

import sys
import time
from datetime import datetime

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
options = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
for ts in (1, 2):
    spark.createDataFrame([("a", ts)], "id string, ts long").write.format("hudi").options(**options).mode("append").save(path)
    time.sleep(1.1)
instant = penstock.Table.open(path).history()[-1].instant
text = str(instant)
moment = datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(microsecond=int(text[14:]) * 1000)
for form in (text, moment.strftime("%Y-%m-%d %H:%M:%S.") + text[14:], text[:14] + "999"):
    assert spark.read.format("hudi").option("as.of.instant", form).load(path).first().ts == 1, form
assert spark.read.format("hudi").option("as.of.instant", "2020-01-01").load(path).count() == 0

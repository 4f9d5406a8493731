"""As in notebooks: saveAsTable with a path, one error with the way out."""

# Ends in: Unsupported: save
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
options = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
spark.createDataFrame([("a", 1)], "id string, ts long").write.format("hudi").options(**options).option("path", sys.argv[1]).mode(
    "overwrite"
).saveAsTable("default.t")

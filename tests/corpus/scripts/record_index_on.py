"""As in posts on the record index: not supported yet, one error with the way out."""

# Ends in: hoodie.index.type' is 'RECORD_INDEX'.*GLOBAL_SIMPLE
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
options = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.enable.data.skipping": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
spark.createDataFrame([("a", 1)], "id string, ts long").write.format("hudi").options(**options).mode("append").save(sys.argv[1])

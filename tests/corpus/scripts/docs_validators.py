"""As in the documentation of pre-commit validators: a commit that breaks a rule is refused, and the table stays as it was."""

import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
path = sys.argv[1]
options = {
    "hoodie.table.name": "checked",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME> where fare is null#0",
}
good = spark.createDataFrame([("a", 1, 2.5)], "id string, ts long, fare double")
good.write.format("hudi").options(**options).mode("overwrite").save(path)
bad = spark.createDataFrame([("b", 1, None)], "id string, ts long, fare double")
try:
    bad.write.format("hudi").options(**options).mode("append").save(path)
    print("written")
except penstock.errors.ValidationFailed as error:
    print("refused:", error)
assert spark.read.format("hudi").load(path).count() == 1

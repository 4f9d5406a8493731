"""DDL in SQL: not supported yet."""

# Ends in: Unsupported: hudi
import sys

from pyspark.sql import SparkSession

import penstock

spark = penstock.enable(SparkSession.builder.getOrCreate())
spark.sql(f"""
    create table hudi_cow_pt_tbl (id bigint, name string, ts bigint, dt string, hh string)
    using hudi
    tblproperties (type = 'cow', primaryKey = 'id', preCombineField = 'ts')
    partitioned by (dt, hh)
    location '{sys.argv[1]}'
""")

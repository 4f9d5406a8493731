"""`format("hudi")` for the DataFrames of a Spark session."""

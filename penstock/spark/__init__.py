"""The door for DataFrames: `format("hudi")` on a session's readers and writers."""

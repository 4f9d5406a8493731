"""How rows of one key become one row. Kernels: Arrow tables in and out, no files, no Spark.

`merger.py` holds the base class, `payloads.py` the table of payloads, one file each the payloads, `user/` functions of users,
`kernels/` the vectorised steps.
"""

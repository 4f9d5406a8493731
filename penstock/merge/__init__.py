"""Mergers: how rows of one key become one row. Arrow tables in, Arrow tables out; no files, no Spark.

`merger.py` holds the base class `Merger`, and `make_merger.py` makes the merger that an option names. Each other module holds one
or a few mergers. `user/` calls merge functions that users registered; `kernels/` holds functions over whole Arrow columns that
mergers share.
"""

"""Publishes changes of a table atomically: `begin.py` and `change.py` for commits, `swap_tables.py` for save mode `overwrite`."""

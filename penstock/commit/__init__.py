"""Publishes changes of a table atomically: `change.py` for commits, `swap_tables.py` for save mode `overwrite`."""

"""Publishes changes of a table atomically.

`begin.py` takes an instant and `change.py` publishes its commit; `swap_tables.py` does it for save mode `overwrite`. With several
writers, `claims.py` puts commits in order, `conflicts.py` and `overlap.py` find conflicts, and `locks/` keeps other engines away.
"""

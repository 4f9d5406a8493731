"""Rollback: what a failed write left is removed, and the timeline says so.

`failed.py` finds the writes that failed, `asked.py` takes one that a user names; `plan.py` says what goes, `run.py`
removes it, and `index.py` tells an index that keeps entries.
"""

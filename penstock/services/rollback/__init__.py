"""Rollback: remove what a failed write left, and record it on the timeline.

`failed_writes.py` finds the writes that failed, `requested.py` takes one that a user names; `plan.py` says what is removed,
`run.py` removes it, and calls the index, which undoes its entries. `service.py` is the table service.
"""

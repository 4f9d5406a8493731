"""Rollback: remove the files of a failed write, and record the rollback on the timeline.

`failed_writes.py` finds failed writes and rolls them back, `requested.py` rolls back a write that a user names, and
`completed.py` checks that a completed write can be rolled back. `plan.py` decides which files to remove; `run.py` removes them
and calls the index to undo its entries. `service.py` is the table service.
"""

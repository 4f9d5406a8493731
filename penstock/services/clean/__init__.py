"""Cleaning: delete old file versions that no retained commit needs.

`retention.py` decides which commits stay readable, `plan.py` which files of a partition to delete; `schedule.py` stores a plan on
the timeline, `run.py` deletes the files of the plan.
"""

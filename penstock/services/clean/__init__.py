"""Cleaning: file versions that nobody may ask for any more are deleted.

`retention.py` says what stays and `plan.py` which files go; `schedule.py` puts that on the timeline, `run.py` deletes.
"""

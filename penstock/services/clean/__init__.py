"""Cleaning: delete file versions that no query may ask for any more.

`retention.py` says which commits stay readable and `plan.py` which files of a partition are deleted for that; `schedule.py` puts
a plan on the timeline, `run.py` carries it out.
"""

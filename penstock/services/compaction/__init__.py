"""Compaction: the log files of a merge-on-read table become base files.

`service.py` is the entrance: `COMPACTION`, which `services/planned.py` schedules and runs. `triggers.py` says when a plan is due,
`plan.py` and `strategies.py` what it holds, `planned_slices.py` which files it stands for when it is run. `compact_slice.py` is
the kernel. `unschedule.py` takes a plan off the timeline again.
"""

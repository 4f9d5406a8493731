"""Compaction: merge the log files of a merge-on-read table into new base files.

`service.py` is the entrance: `COMPACTION`, which `services/planned.py` schedules and runs. `triggers.py` decides when a plan is
due. `plan.py` and `strategies.py` make the plan; `planned_slices.py` finds the files of the plan when it is run.
`compact_slice.py` compacts one slice, in a worker or on the driver. `unschedule.py` removes a plan from the timeline.
"""

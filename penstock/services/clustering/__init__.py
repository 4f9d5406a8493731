"""Clustering: rewrite small file groups into larger ones, with their rows in an order that helps queries skip files.

`service.py` is the entrance: `CLUSTERING`, which `services/planned.py` schedules and runs. `triggers.py` decides when a plan is
due. `plan.py`, `partition_filters.py` and `strategies.py` make the plan. A plan consists of groups: file slices that are
rewritten together. `planned_slices.py` checks whether a write has changed the file groups of the plan since. `tasks.py` divides
the plan into tasks. In the workers, `rewrite_group.py` rewrites a group in one task, `rewrite_large.py` a large group in several;
`row_order.py` and `curves.py` compute the order of rows. `resize_buckets.py` plans and runs the clustering of a table with
consistent hashing, which splits and joins buckets. `unschedule.py` removes a plan from the timeline.
"""

"""Clustering: small file groups are rewritten into larger ones, with their rows in an order that helps queries.

`service.py` is the entrance: `CLUSTERING`, which `services/planned.py` schedules and runs. `triggers.py` says when a plan is due;
`plan.py`, `partition_filters.py` and `strategies.py` what it holds; `planned_slices.py` whether its files were changed since;
`tasks.py` how it is cut into tasks. Kernels: `rewrite_group.py` rewrites a group in one task, `rewrite_large.py` a large one in
several; `row_order.py` and `curves.py` are the order of rows. `resize_buckets.py` plans and runs the clustering of consistent
hashing, which splits and joins buckets. `unschedule.py` takes a plan off the timeline.
"""

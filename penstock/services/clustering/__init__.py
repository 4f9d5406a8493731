"""Clustering: file groups are rewritten into larger ones, in an order that queries like.

`partitions.py` and `plan.py` decide, `schedule.py` puts a plan on the timeline, `run.py` carries it out: `rewrite.py` in one
task for each group, or, where a group is large, `split.py` in several; `order.py` and `curves.py` are the order of the rows.
`resize.py` splits and joins the buckets of consistent hashing.
"""

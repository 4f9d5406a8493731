"""Hudi tables as sink of Spark's structured streaming. `spark/streaming.py` calls it."""

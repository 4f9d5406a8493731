"""Hudi tables as sink and as source of Spark's structured streaming. `spark/streaming.py` calls it."""

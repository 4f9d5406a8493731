"""Everything that differs between PySpark releases, and between the classic session and Spark Connect."""

from __future__ import annotations

import pyspark


def session_classes() -> list[type]:
    """The session classes whose `read` can be taken over."""
    from pyspark.sql import SparkSession

    return [SparkSession, *_connect("pyspark.sql.connect.session", "SparkSession")]


def frame_classes() -> list[type]:
    """The DataFrame classes whose `write` can be taken over; in PySpark 4 the classic one is a subclass."""
    from pyspark.sql import DataFrame

    found: list[type] = [DataFrame]
    if spark_version() >= (4, 0):
        found += _connect("pyspark.sql.classic.dataframe", "DataFrame")
    return found + _connect("pyspark.sql.connect.dataframe", "DataFrame")


def spark_version() -> tuple[int, int]:
    """Major and minor version of PySpark."""
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def _connect(module: str, name: str) -> list[type]:
    """A class of a part of PySpark that may not be installed (Connect needs grpc)."""
    import importlib

    try:
        return [getattr(importlib.import_module(module), name)]
    except ImportError:
        return []
    except Exception as e:  # PySpark raises errors of its own where grpc or pandas are missing
        if "required" in str(e).lower() or "must be installed" in str(e).lower():
            return []
        raise

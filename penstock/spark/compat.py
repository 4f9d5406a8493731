"""The differences between PySpark releases, and between the classic session and Spark Connect."""

from __future__ import annotations

import pyspark


def session_classes() -> list[type]:
    """Return the classes of Spark sessions, classic and Connect, whose `read` Penstock replaces."""
    from pyspark.sql import SparkSession

    return [SparkSession, *_connect("pyspark.sql.connect.session", "SparkSession")]


def frame_classes() -> list[type]:
    """Return the DataFrame classes, classic and Connect, whose `write` Penstock replaces.

    In PySpark 4 the class for a classic session is a subclass of `pyspark.sql.DataFrame`.
    """
    from pyspark.sql import DataFrame

    found: list[type] = [DataFrame]
    if spark_version() >= (4, 0):
        found += _connect("pyspark.sql.classic.dataframe", "DataFrame")
    return found + _connect("pyspark.sql.connect.dataframe", "DataFrame")


def spark_version() -> tuple[int, int]:
    """Return (major, minor) version of the installed PySpark."""
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def _connect(module: str, name: str) -> list[type]:
    """Return the class `name` of a PySpark module, as a list of one; an empty list if the module cannot be imported.

    Spark Connect cannot be imported if grpc or pandas is missing.
    """
    import importlib

    try:
        return [getattr(importlib.import_module(module), name)]
    except ImportError:
        return []
    except Exception as e:  # PySpark raises its own errors if grpc or pandas is missing
        if "required" in str(e).lower() or "must be installed" in str(e).lower():
            return []
        raise

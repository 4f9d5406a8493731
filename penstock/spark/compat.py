"""The differences between PySpark releases, and between the classic session and Spark Connect.

Connect's modules are never imported here. They need grpc, and without it PySpark 4.3 ends a process whose main module has no file
(`python -c`, a shell) with status 0. A process that uses Connect has imported them itself.
"""

from __future__ import annotations

import sys

import pyspark


def session_classes() -> list[type]:
    """Return the session classes whose `read` Penstock replaces: the classic one, and Connect's if the process uses Connect."""
    from pyspark.sql import SparkSession

    return [SparkSession, *_loaded_class("pyspark.sql.connect.session", "SparkSession")]


def frame_classes() -> list[type]:
    """Return the DataFrame classes whose `write` Penstock replaces: the classic ones, and Connect's if the process uses Connect.

    In PySpark 4 the class for a classic session is a subclass of `pyspark.sql.DataFrame`.
    """
    from pyspark.sql import DataFrame

    found: list[type] = [DataFrame]
    if spark_version() >= (4, 0):
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        found.append(ClassicDataFrame)
    return found + _loaded_class("pyspark.sql.connect.dataframe", "DataFrame")


def spark_version() -> tuple[int, int]:
    """Return (major, minor) version of the installed PySpark."""
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def _loaded_class(module: str, name: str) -> list[type]:
    """Return a list with the class `name` of a module; an empty list if this process has not imported the module."""
    loaded = sys.modules.get(module)
    return [getattr(loaded, name)] if loaded is not None and hasattr(loaded, name) else []

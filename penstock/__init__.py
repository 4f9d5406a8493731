"""Apache Hudi tables, written and read in Python on Spark, with no Hudi jar.

>>> import penstock
>>> penstock.enable(spark)                                                             # doctest: +SKIP
>>> df.write.format("hudi").options(**hoodie_options).mode("append").save(path)        # doctest: +SKIP
>>> spark.read.format("hudi").load(path)                                               # doctest: +SKIP
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.session import disable, enable, session

try:
    __version__ = _version("penstock")
except PackageNotFoundError:  # shipped to an executor as a plain folder or zip
    __version__ = "0"

__all__ = ["__version__", "disable", "enable", "session"]

_LAZY = {"enable": "penstock.spark.session", "disable": "penstock.spark.session", "session": "penstock.spark.session"}


def __getattr__(name: str) -> Any:
    """Doors are loaded when they are used: a worker imports kernels only."""
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)

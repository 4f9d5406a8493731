"""Apache Hudi tables, written and read in Python on Spark, with no Hudi jar.

Spark's own way, after `penstock.enable(spark)`:

>>> spark = penstock.enable(spark)
>>> hoodie = {"hoodie.table.name": "trips", "hoodie.datasource.write.recordkey.field": "id"}
>>> trips.write.format("hudi").options(**hoodie).mode("append").save(path)
>>> spark.read.format("hudi").load(path).count()
3

and a typed one, for people who would rather not write option strings:

>>> table = penstock.Table.open(path)
>>> table.upsert(trips).rows_updated
3
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api import Commit, Table
    from penstock.bundle import bundle
    from penstock.spark.session import disable, enable, session

try:
    __version__ = _version("penstock")
except PackageNotFoundError:  # shipped to an executor as a plain folder
    __version__ = "0"

__all__ = ["Commit", "Table", "__version__", "bundle", "disable", "enable", "session"]

_LAZY = {
    "Commit": "penstock.api",
    "Table": "penstock.api",
    "bundle": "penstock.bundle",
    "disable": "penstock.spark.session",
    "enable": "penstock.spark.session",
    "session": "penstock.spark.session",
}


def __getattr__(name: str) -> Any:
    """Doors are loaded when they are used: a worker imports kernels only."""
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

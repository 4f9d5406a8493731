"""Apache Hudi tables, written and read in Python on Spark, with no Hudi jar.

Spark's own way, after `penstock.enable(spark)`:

>>> spark = penstock.enable(spark)
>>> hoodie = {"hoodie.table.name": "trips", "hoodie.datasource.write.recordkey.field": "id"}
>>> trips.write.format("hudi").options(**hoodie).mode("append").save(path)
>>> spark.read.format("hudi").load(path).count()
3
>>> penstock.explain_write(trips, path, hoodie).rows_incoming  # what a write would do, before it does it
3

and a typed one, for people who would rather not write option strings:

>>> table = penstock.Table.open(path)
>>> table.upsert(trips).rows_updated
3
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api import Commit, Table
    from penstock.bundle import bundle
    from penstock.registry import merger, payload
    from penstock.spark.goldengate import ogg_rows
    from penstock.spark.session import disable, enable, session
    from penstock.write.explain.write_plan import explain_write

    __version__: str

__all__ = [
    "Commit",
    "Table",
    "__version__",
    "bundle",
    "disable",
    "enable",
    "explain_write",
    "merger",
    "ogg_rows",
    "payload",
    "session",
]

_LAZY = {
    "Commit": "penstock.api",
    "Table": "penstock.api",
    "bundle": "penstock.bundle",
    "disable": "penstock.spark.session",
    "enable": "penstock.spark.session",
    "explain_write": "penstock.write.explain.write_plan",
    "merger": "penstock.registry",
    "ogg_rows": "penstock.spark.goldengate",
    "payload": "penstock.registry",
    "session": "penstock.spark.session",
}


def __getattr__(name: str) -> Any:
    """Doors are loaded when they are used: a worker imports kernels only."""
    if name == "__version__":
        return globals().setdefault(name, _installed_version())
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return found


def _installed_version() -> str:
    """The package's version; looking it up is slow enough to leave it to those who ask."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("penstock")
    except PackageNotFoundError:  # a plain folder on Python's path
        return "0"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

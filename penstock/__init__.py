"""Reads and writes Apache Hudi tables in Python on Spark, without a Hudi jar.

With Spark's own API, after `penstock.enable(spark)`:

>>> spark = penstock.enable(spark)
>>> hoodie = {"hoodie.table.name": "trips", "hoodie.datasource.write.recordkey.field": "id"}
>>> trips.write.format("hudi").options(**hoodie).mode("append").save(path)
>>> spark.read.format("hudi").load(path).count()
3
>>> penstock.explain_write(trips, path, hoodie).rows_incoming  # what a write would do; nothing is written
3

With a typed API, without option strings:

>>> table = penstock.Table.open(path)
>>> table.upsert(trips).rows_updated
3
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api import Commit, Table
    from penstock.bundle import bundle
    from penstock.hooks.notice import CommitNotice
    from penstock.hooks.validators import TablePreview
    from penstock.registered.functions import merger, payload
    from penstock.registered.hooks import commit_callback, validator
    from penstock.registered.locks import lock_provider
    from penstock.registered.sync_tools import sync_tool
    from penstock.spark.goldengate import ogg_rows
    from penstock.spark.session import disable, enable, session
    from penstock.write.explain.write_plan import explain_write

    __version__: str

__all__ = [
    "Commit",
    "CommitNotice",
    "Table",
    "TablePreview",
    "__version__",
    "bundle",
    "commit_callback",
    "disable",
    "enable",
    "explain_write",
    "lock_provider",
    "merger",
    "ogg_rows",
    "payload",
    "session",
    "sync_tool",
    "validator",
]

#: The module of each public name. Modules are imported on first use: Spark workers import `penstock`, but only need kernels.
_LAZY = {
    "Commit": "penstock.api",
    "CommitNotice": "penstock.hooks.notice",
    "Table": "penstock.api",
    "TablePreview": "penstock.hooks.validators",
    "bundle": "penstock.bundle",
    "commit_callback": "penstock.registered.hooks",
    "disable": "penstock.spark.session",
    "enable": "penstock.spark.session",
    "explain_write": "penstock.write.explain.write_plan",
    "lock_provider": "penstock.registered.locks",
    "merger": "penstock.registered.functions",
    "ogg_rows": "penstock.spark.goldengate",
    "payload": "penstock.registered.functions",
    "session": "penstock.spark.session",
    "sync_tool": "penstock.registered.sync_tools",
    "validator": "penstock.registered.hooks",
}


def __getattr__(name: str) -> Any:
    """Import a public name of the package on first use, because Spark workers import `penstock` but need only its kernels."""
    if name == "__version__":
        from penstock.package_zip import package_version

        return globals().setdefault(name, package_version())  # reading the metadata is slow, so it is done on first use
    if name != "errors" and name not in _LAZY:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module

    if name == "errors":  # `except penstock.errors.WriteConflict` needs no import of its own
        return import_module("penstock.errors")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value  # the next access does not come here, and gets the function `bundle`, not the module of that name
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Record keys and partition paths: columns in, Spark expressions out.

The write pipeline asks `key_generator(settings)` for the generator that the options and the table name, and its
`columns(schema)` for the expressions. A row without a key raises inside the expression; `typed_error` finds the error
again in Spark's exception. `paths.py` is the same subject as plain text, for readers and workers.

Promise: the same row gives the same key on every Spark version, session, time zone and operation.

Importing this package does not import pyspark; asking for `key_generator` or `KEY_GENERATORS` does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.error_text import typed_error
from penstock.keys.generator import KeyColumns, KeyGenerator, KeySettings
from penstock.keys.names import infer_generator
from penstock.keys.row_errors import missing_key

if TYPE_CHECKING:
    from penstock.keys.generators import KEY_GENERATORS, key_generator

__all__ = [
    "KEY_GENERATORS",
    "KeyColumns",
    "KeyGenerator",
    "KeySettings",
    "infer_generator",
    "key_generator",
    "missing_key",
    "typed_error",
]


def __getattr__(name: str) -> object:
    if name in ("KEY_GENERATORS", "key_generator"):
        return getattr(import_module("penstock.keys.generators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

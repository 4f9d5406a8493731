"""Record keys and partition paths of incoming rows, computed as Spark expressions.

A write calls `make_key_generator(settings)` for a generator, and then the generator's `make_columns(schema)` for the expressions.
An expression raises an error for a row without a key; `typed_error` recovers that error from Spark's exception.
`partition_path.py` handles partition paths as Python strings, for readers and workers.

Promise: the same row has the same key on every Spark version, session, time zone and operation.

Importing this package does not import pyspark; making a generator does.
"""

from __future__ import annotations

from penstock.error_text import typed_error
from penstock.keys.generator import KeyColumns, KeyGenerator, KeySettings
from penstock.keys.key_errors import missing_key
from penstock.keys.make_generator import infer_generator_class, make_key_generator

__all__ = [
    "KeyColumns",
    "KeyGenerator",
    "KeySettings",
    "infer_generator_class",
    "make_key_generator",
    "missing_key",
    "typed_error",
]

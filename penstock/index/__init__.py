"""Indexes: how a write finds the file group that holds a key.

`Index` (`index.py`) is the base class, one module holds each index, and `INDEXES` (`options/index.py`) names them. Indexes are
imported when they are asked for, so that a write does not import the code of the others.
"""

from __future__ import annotations

from importlib import import_module

from penstock import options as o
from penstock.errors import Unsupported
from penstock.index.buckets import Buckets
from penstock.index.index import Index
from penstock.options import Options
from penstock.options.index import INDEXES
from penstock.table import TableState

__all__ = ["INDEXES", "Index", "index_class", "load_buckets", "load_index", "make_index"]

#: The options that say which buckets a table has.
_BUCKET_OPTIONS = (
    o.RECORD_KEY_FIELD.key,
    o.INDEX_TYPE.key,
    o.BUCKET_ENGINE.key,
    o.BUCKET_COUNT.key,
    o.BUCKET_HASH_FIELDS.key,
)


def make_index(options: Options) -> Index:
    """Return the index that the options ask for, without what it keeps in a table. Raise OptionError if one is missing."""
    return index_class(options[o.INDEX_TYPE]).from_options(options)


def load_index(table: TableState, options: Options) -> Index:
    """Return the index that the options ask for, with what it keeps in the table."""
    return make_index(options).load(table)


def load_buckets(table: TableState) -> Buckets | None:
    """Return the buckets of a table, as its properties or the options that it was opened with say; None if it has none."""
    record_key = {o.RECORD_KEY_FIELD.key: ",".join(table.config.record_key_fields)}
    texts = {**record_key, **table.config.raw, **table.options.raw}
    options = table.options.replace({key: text for key, text in texts.items() if key in _BUCKET_OPTIONS})
    if options[o.INDEX_TYPE] != "BUCKET":
        return None
    return load_index(table, options).buckets


def index_class(name: str) -> type[Index]:
    """Return the class of an index. Raise Unsupported if there is none of this name."""
    if name not in INDEXES:
        raise Unsupported(f"{o.INDEX_TYPE.key}={name} is not supported; use {', '.join(INDEXES)}")
    module, _, class_name = INDEXES[name].partition(":")
    found: type[Index] = getattr(import_module(module), class_name)
    return found

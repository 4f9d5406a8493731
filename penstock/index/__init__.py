"""Indexes: find the file group that holds the row of a record key, for a write.

`Index` in `index.py` is the base class. Each index has a module of its own. `INDEXES` (`options/index_names.py`) lists them by
the value of `hoodie.index.type`. The module of an index is imported only when a write uses that index.
"""

from __future__ import annotations

from penstock import options as o
from penstock.errors import Unsupported
from penstock.index.bucket_hash import Buckets
from penstock.index.index import Index
from penstock.load_part import load_part
from penstock.options import Options
from penstock.options.index_names import INDEXES
from penstock.table.state import TableState

__all__ = ["INDEXES", "Index", "index_class", "load_buckets", "load_index", "make_index"]

#: The options that define the buckets of a table.
_BUCKET_OPTIONS = (
    o.RECORD_KEY_FIELD.key,
    o.INDEX_TYPE.key,
    o.BUCKET_ENGINE.key,
    o.BUCKET_COUNT.key,
    o.BUCKET_HASH_FIELDS.key,
)


def make_index(options: Options) -> Index:
    """Return the index that `hoodie.index.type` and its options define. Nothing is read from a table.

    Raises:
        OptionError: a required option is missing.
    """
    return index_class(options[o.INDEX_TYPE]).from_options(options)


def load_index(table: TableState, options: Options) -> Index:
    """Return the index that the options define. A bucket index is returned with the hash rings that the table stores."""
    return make_index(options).load(table)


def load_buckets(table: TableState) -> Buckets | None:
    """Return the buckets of a table's bucket index; None if the table has another index.

    Options with which the table was opened override the table's properties.
    """
    record_key = {o.RECORD_KEY_FIELD.key: ",".join(table.config.record_key_fields)}
    texts = {**record_key, **table.config.raw, **table.options.raw}
    options = table.options.replace({key: text for key, text in texts.items() if key in _BUCKET_OPTIONS})
    if options[o.INDEX_TYPE] != "BUCKET":
        return None
    return load_index(table, options).buckets


def index_class(name: str) -> type[Index]:
    """Return the class of the index with this value of `hoodie.index.type`. Raise Unsupported if there is none."""
    if name not in INDEXES:
        raise Unsupported(f"{o.INDEX_TYPE.key}={name} is not supported; use {', '.join(INDEXES)}")
    found: type[Index] = load_part(INDEXES[name])
    return found

"""Which file slices of a table with buckets can hold the rows that a query asks for by their keys.

The rows of a key are in one bucket of each partition. A query that names values for the columns that choose the bucket opens
that bucket's files alone. A record key of several columns is one text, in which a comma inside another column's value could be
taken for the next column; so all key columns must be named, or those that are not named must be of types without commas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice
from penstock.index import load_buckets
from penstock.index.buckets import Buckets
from penstock.index.lookup import key_range
from penstock.table import TableState

#: Files that are asked whether the number of buckets that was given is theirs.
_WITNESSES = 8
#: Avro types whose values, as text, have neither comma nor colon.
_PLAIN = ("int", "long", "boolean")


def in_asked_buckets(
    slices: list[FileSlice], equals: Mapping[str, object], table: TableState, schema: str | None
) -> list[FileSlice]:
    """The slices that may hold rows whose columns have these values; all of them where that cannot be told.

    Raises:
        OptionError: the options say how many buckets there are, and the table, or its files, say otherwise.
    """
    buckets = load_buckets(table)
    key = _key(equals, table, buckets.fields, schema) if buckets else None
    if buckets is None or key is None:
        return slices
    if not _is_sure(buckets, slices, table):
        return slices
    keys = pa.array([key], pa.string())
    return [s for s in slices if buckets.may_hold(s, int(buckets.numbers(keys, s.partition_path)[0]))]


def _is_sure(buckets: Buckets, slices: Sequence[FileSlice], table: TableState) -> bool:
    """Whether the number of buckets is known: a wrong one would lead to the wrong files, and rows would be missing.

    The table says it, or it is given, and held against some files. Without any that can be asked nothing is sure.
    """
    stored, given = table.config.raw.get(o.BUCKET_COUNT.key), table.options.raw.get(o.BUCKET_COUNT.key)
    if stored is not None:
        if given is not None and int(given) != int(stored):
            raise OptionError(f"{o.BUCKET_COUNT.key}={given}, but {table.base_path} has {stored} buckets; leave the option out")
        return True
    if buckets.is_kept_in_table:
        return True
    some = [one for one in slices if one.base_file][:_WITNESSES]
    witnesses = [(one, key_range(table.storage, one.base_file)) for one in some if one.base_file]
    for one, keys in witnesses:
        buckets.check_keys(one, keys or ())
    return any(keys for _, keys in witnesses)


def _key(equals: Mapping[str, object], table: TableState, chosen_by: Sequence[str], schema: str | None) -> str | None:
    """A record key with the bucket of the rows that are asked for; None if their bucket is not known."""
    fields = table.config.record_key_fields
    if schema is None:
        return None
    kinds = {f["name"]: _kind(f["type"]) for f in json.loads(schema)["fields"]}
    for field in fields:
        if field not in equals and (field in chosen_by or kinds.get(field) not in _PLAIN):
            return None
    texts = {field: _text(equals[field], kinds.get(field)) for field in fields if field in equals}
    if any(text is None for text in texts.values()):
        return None
    if len(fields) == 1:
        return None if _may_be_labelled(table, texts[fields[0]] or "") else texts[fields[0]]
    return ",".join(f"{field}:{text or '__empty__'}" for field, text in texts.items())


def _may_be_labelled(table: TableState, text: str) -> bool:
    """Whether the only value of a key may stand behind its column's name, where a comma or colon counts otherwise than alone."""
    return "Complex" in (table.config.key_generator_class or "Complex") and any(mark in text for mark in ",:")


def _kind(avro: object) -> object:
    """The plain type of an Avro field, nullable or not."""
    if isinstance(avro, list):
        return next((_kind(one) for one in avro if one != "null"), None)
    return avro


def _text(value: object, kind: object) -> str | None:
    """A value as it stands in a record key; None for types whose text is another engine's business."""
    if kind == "string" and isinstance(value, str):
        return value
    if kind == "boolean" and isinstance(value, bool):
        return "true" if value else "false"
    if kind in ("int", "long") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None

"""Bucket pruning: which file slices of a table with a bucket index can hold the rows that a query asks for by their keys.

The rows of a key are in one bucket of each partition. If a query names values for the columns that the bucket index hashes, only
the files of that bucket are read. The hash is computed from the record key, which for several columns is one string such as
`first:1,second:2`. A comma inside one value may change how the hash splits this string. So pruning needs a value for every key
column, except for columns of a type whose values never have commas (int, long, boolean).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.key_footer import read_key_range
from penstock.filegroup.model import FileSlice
from penstock.index import load_buckets
from penstock.index.bucket_hash import Buckets
from penstock.table.state import TableState

#: How many base files are checked if only the options name the number of buckets: their keys must hash to their bucket.
_CHECKED_FILES = 8
#: Avro types whose values, as text, have neither comma nor colon.
_TYPES_WITHOUT_COMMAS = ("int", "long", "boolean")


def keep_wanted_buckets(
    slices: list[FileSlice], equals: Mapping[str, object], table: TableState, schema: str | None
) -> list[FileSlice]:
    """Return the slices that may hold rows with the values in `equals`; all slices if the bucket of these rows is not known.

    Args:
        equals: column → the value that the query asks for.
        schema: the table's Avro schema as JSON; None: it is not known, and all slices are returned.

    Raises:
        OptionError: the options name a number of buckets, and the table or its files have another.
    """
    buckets = load_buckets(table)
    if buckets is None:
        return slices
    key = _build_key(equals, table, buckets.fields, schema)
    if key is None or not _is_bucket_count_known(buckets, slices, table):
        return slices
    keys = pa.array([key], pa.string())
    wanted: list[FileSlice] = []
    for file_slice in slices:
        number = int(buckets.numbers(keys, file_slice.partition_path)[0])
        if buckets.may_hold(file_slice, number):
            wanted.append(file_slice)
    return wanted


def _is_bucket_count_known(buckets: Buckets, slices: Sequence[FileSlice], table: TableState) -> bool:
    """Return whether the table's number of buckets is certain, and raise OptionError if the options name a wrong number.

    With a wrong number a query would read the wrong files and miss rows. The number is certain if the table's properties name it
    or the table stores its hash rings. A number from the options is certain only if the keys of some base files confirm it.

    Raises:
        OptionError: the options name another number than the table's properties or the keys of its base files.
    """
    stored = table.config.raw.get(o.BUCKET_COUNT.key)
    given = table.options.raw.get(o.BUCKET_COUNT.key)
    if stored is not None:
        if given is not None and int(given) != int(stored):
            raise OptionError(f"{o.BUCKET_COUNT.key}={given}, but {table.base_path} has {stored} buckets; leave the option out")
        return True
    if buckets.is_kept_in_table:
        return True
    is_confirmed = False
    for file_slice in [file_slice for file_slice in slices if file_slice.base_file][:_CHECKED_FILES]:
        assert file_slice.base_file is not None
        keys = read_key_range(table.storage, file_slice.base_file)
        buckets.check_keys(file_slice, keys or ())
        is_confirmed = is_confirmed or bool(keys)
    return is_confirmed


def _build_key(equals: Mapping[str, object], table: TableState, bucket_fields: Sequence[str], schema: str | None) -> str | None:
    """Build a record key that hashes to the bucket of the wanted rows; return None if `equals` does not determine the bucket.

    Key columns outside `bucket_fields` may be left out of this key: the hash does not use them.

    Args:
        equals: column → the value that the query asks for.
        bucket_fields: the columns that the hash of the bucket index uses.
        schema: the table's Avro schema as JSON; None: it is not known.
    """
    key_fields = table.config.record_key_fields
    if schema is None:
        return None
    types = {field["name"]: _plain_type(field["type"]) for field in json.loads(schema)["fields"]}
    texts: dict[str, str] = {}
    for field in key_fields:
        if field in equals:
            text = _key_text(equals[field], types.get(field))
            if text is None:
                return None
            texts[field] = text
        elif field in bucket_fields or types.get(field) not in _TYPES_WITHOUT_COMMAS:
            return None
    if len(key_fields) == 1:
        text = texts[key_fields[0]]
        return None if _may_be_labelled(table, text) else text
    return ",".join(f"{field}:{text or '__empty__'}" for field, text in texts.items())


def _may_be_labelled(table: TableState, text: str) -> bool:
    """Whether a one-column key may be stored as `name:text`, in another bucket than the plain key `text`.

    The complex key generator of some Hudi releases writes `name:text`. The hash splits this form at commas and colons, and hashes
    a plain key as a whole. So the bucket differs only if `text` has a comma or a colon.
    """
    return "Complex" in (table.config.key_generator_class or "Complex") and any(mark in text for mark in ",:")


def _plain_type(avro_type: object) -> object:
    """Return an Avro type without null: the first branch of a union that is not null, or the type itself."""
    if isinstance(avro_type, list):
        return next((_plain_type(branch) for branch in avro_type if branch != "null"), None)
    return avro_type


def _key_text(value: object, avro_type: object) -> str | None:
    """Return a value in the form that it has in a record key; None if not all writers spell values of this Avro type alike."""
    if avro_type == "string" and isinstance(value, str):
        return value
    if avro_type == "boolean" and isinstance(value, bool):
        return "true" if value else "false"
    if avro_type in ("int", "long") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None

"""The bucket index: a hash of the key says which file group of its partition a row belongs to. Kernels.

A partition has at most one file group per bucket, whose file id begins with the bucket's number in eight digits. No file is
read to locate a key, and a table keeps its number of buckets for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock import clock
from penstock import options as o
from penstock.errors import CorruptFile, OptionError
from penstock.filegroup.model import FileSlice
from penstock.formats.hashes import Int64s, java_hash, java_polynomial, powers_of_31
from penstock.index.key_fields import is_compound, values_of_keys
from penstock.options import Options
from penstock.options.option import words

Keys: TypeAlias = "pa.Array[Any]"

_DIGITS = 8
_BUCKET_ID = re.compile(r"[0-9]{8}-")
#: A random id looks like this once in half a million times; nobody has buckets by the tens of thousands.
_SMALL_BUCKET_ID = re.compile(r"0000[0-9]{4}-")


@dataclass(frozen=True)
class Buckets:
    """A fixed number of buckets, and the key columns whose values choose one."""

    count: int
    fields: tuple[str, ...]

    def numbers(self, keys: Keys, path: str = "") -> Int64s:
        """The bucket of each record key; the same in every partition."""
        return (hash_of_keys(keys, self.fields) & 0x7FFFFFFF).astype(np.int64) % self.count

    def new_file_id(self, number: int, path: str = "") -> str:
        """A file id for a bucket's new file group."""
        return f"{number:0{_DIGITS}d}{clock.new_uuid()[_DIGITS:]}-0"

    def number_of(self, slice_: FileSlice) -> int:
        """The bucket of a file group.

        Raises:
            OptionError: the file group is no bucket's, or one beyond the last.
        """
        where = f"file group {slice_.file_id} of partition {slice_.partition_path or '(none)'}"
        if not _BUCKET_ID.match(slice_.file_id):
            raise OptionError(
                f"{where} is not a bucket: the table was written with another index, and {o.INDEX_TYPE.key}=BUCKET would make "
                f"duplicates. Use that index, or write the rows to a new table"
            )
        number = int(slice_.file_id[:_DIGITS])
        if number >= self.count:
            raise OptionError(
                f"{where} is bucket {number}, but {o.BUCKET_COUNT.key} is {self.count}; the number of buckets cannot change: "
                "give the one that the table was written with, or write the rows to a new table"
            )
        return number

    def by_number(self, slices: Iterable[FileSlice]) -> dict[int, FileSlice]:
        """The file slices of one partition, by their buckets.

        Raises:
            CorruptFile: two of them are one bucket's.
        """
        found: dict[int, FileSlice] = {}
        for one in slices:
            number = self.number_of(one)
            if number in found:
                raise CorruptFile(
                    f"Find multiple files at partition path={one.partition_path} belongs to the same bucket id = {number}: "
                    f"{found[number].file_id} and {one.file_id}; write the partition anew from its deduplicated rows"
                )
            found[number] = one
        return found

    def check_keys(self, slice_: FileSlice, keys: Sequence[str]) -> None:
        """Refuse a file group some of whose keys belong to another bucket: it was written with another number of buckets."""
        number = self.number_of(slice_)
        if len(keys) and (self.numbers(pa.array(keys, pa.string())) != number).any():
            raise OptionError(
                f"file group {slice_.file_id} of partition {slice_.partition_path or '(none)'} holds keys of other buckets: it "
                f"was not written with {o.BUCKET_COUNT.key}={self.count} and {o.BUCKET_HASH_FIELDS.key}={','.join(self.fields)}; "
                "neither can change: give those that the table was written with"
            )


def buckets_of(options: Options) -> Buckets:
    """The buckets that the options ask for; without hash fields the whole key chooses."""
    fields = options[o.BUCKET_HASH_FIELDS] or words(options[o.RECORD_KEY_FIELD] or "")
    return Buckets(options[o.BUCKET_COUNT], fields)


def hash_of_keys(keys: Keys, fields: Sequence[str]) -> Any:
    """Java's hash of the list of values that a record key gives for some columns, as an unsigned number.

    Values of other columns do not count, nulls and empty ones count as 0.
    """
    if not is_compound(keys):
        return np.uint32(31) + java_hash(keys)
    values, offsets = values_of_keys(keys, fields)
    counts = offsets[1:] - offsets[:-1]
    return powers_of_31(counts) + java_polynomial(java_hash(values), offsets)


def looks_bucketed(file_ids: Iterable[str]) -> bool:
    """Whether file groups carry bucket numbers: the bucket index wrote them."""
    return all(_SMALL_BUCKET_ID.match(file_id) for file_id in file_ids)

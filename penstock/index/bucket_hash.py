"""Computes the bucket of a record key: its hash determines the bucket, and so the file group, that holds its row.

`Buckets` is the base class of all kinds of buckets. There is one kind for each value of `hoodie.index.bucket.engine`:
`FixedBuckets` below, and `HashRings` in `consistent_hashing.py`. Both are frozen values that are pickled to the workers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock import clock
from penstock import options as o
from penstock.errors import CorruptFile, OptionError
from penstock.filegroup.model import FileSlice
from penstock.formats.hashes import Int64s, java_hash, java_polynomial, powers_of_31
from penstock.index.key_fields import RecordKeys, is_compound, values_of_keys
from penstock.table.state import TableState

_DIGITS = 8
_BUCKET_ID = re.compile(r"[0-9]{8}-")
#: A file id of the bucket index. A random file id matches once in half a million times. Real tables have fewer than 10,000
#: buckets.
_SMALL_BUCKET_ID = re.compile(r"0000[0-9]{4}-")


class Buckets:
    """Base class of `FixedBuckets` and `HashRings`: maps record keys to the buckets of a table.

    A bucket is one file group of one partition, and has a number in that partition.
    """

    #: The value of `hoodie.index.bucket.engine`.
    engine: ClassVar[str]
    #: Whether the first rows of a bucket of a merge-on-read table go to a log file, with no base file below it.
    inserts_into_logs: ClassVar[bool] = False
    #: Whether the table stores its buckets (as hash rings). If false, the number of buckets is an option, which may be wrong.
    is_kept_in_table: ClassVar[bool] = False

    #: How many buckets a partition has; with consistent hashing, how many a new partition has.
    count: int
    #: The key columns whose values are hashed.
    fields: tuple[str, ...]

    def numbers(self, keys: RecordKeys, partition_path: str = "") -> Int64s:
        """Return for each record key the number of the bucket in the partition that holds the key."""
        raise NotImplementedError

    def new_file_id(self, number: int, partition_path: str = "") -> str:
        """Return the file id for a new file group of the bucket with this number in the partition."""
        raise NotImplementedError

    def number_of(self, file_slice: FileSlice) -> int:
        """Return the number of the bucket that a file slice belongs to. Raise OptionError if its file group is not a bucket."""
        raise NotImplementedError

    def by_number(self, slices: Iterable[FileSlice]) -> dict[int, FileSlice]:
        """Return the file slices of one partition as a dict: number of the bucket in that partition → file slice."""
        raise NotImplementedError

    def may_hold(self, file_slice: FileSlice, number: int) -> bool:
        """Whether a file slice may hold rows of the bucket with this number.

        If not, a query for a key of that bucket skips the slice.
        """
        return self.number_of(file_slice) == number

    def check_keys(self, file_slice: FileSlice, keys: Sequence[str]) -> None:
        """Raise OptionError if one of `keys`, record keys that the file slice holds, hashes to a bucket other than the slice's.

        Only fixed buckets are checked.
        """

    # Hash rings, which are stored in the table. A fixed number of buckets stores nothing.

    def load(self, table: TableState) -> Buckets:
        """Return a copy with the hash rings of the table, read from .hoodie/.bucket_index.

        Fixed buckets are returned unchanged: they have no hash rings.
        """
        return self

    def save_partitions(self, table: TableState, partitions: Iterable[str]) -> None:
        """Store the hash rings of partitions that get their first rows. Does nothing for fixed buckets."""

    def renew_partitions(self, table: TableState, instant: str, partitions: Iterable[str]) -> None:
        """Store hash rings with new file ids for partitions whose file groups a replace commit replaces.

        With the old file ids, later rows would be written to the replaced file groups, which readers ignore. Does nothing for
        fixed buckets, which have no hash rings.

        Args:
            instant: the instant time of the replace commit.
        """

    def check_unchanged(self, now: Buckets, partitions: Collection[str]) -> None:
        """Raise WriteConflict if the hash ring of one of the partitions changed since the write assigned its rows to buckets.

        Args:
            now: the buckets, loaded again after the write took its instant.
            partitions: the partition paths of the incoming rows.
        """

    def check_overwrite(self, operation: str) -> None:
        """Raise Unsupported if an operation cannot replace the file groups of these buckets. Only hash rings refuse.

        Args:
            operation: the operation of the write, such as insert_overwrite.
        """


@dataclass(frozen=True)
class FixedBuckets(Buckets):
    """A fixed number of buckets per partition. A key has the same bucket number in every partition.

    A partition has at most one file group per bucket. The file id begins with the number of the bucket in eight digits.
    """

    count: int
    fields: tuple[str, ...]
    engine = "SIMPLE"

    def numbers(self, keys: RecordKeys, partition_path: str = "") -> Int64s:
        """Return for each record key the number of its bucket. The number is the same in every partition."""
        return (hash_keys(keys, self.fields) & 0x7FFFFFFF).astype(np.int64) % self.count

    def new_file_id(self, number: int, partition_path: str = "") -> str:
        """Return a file id that begins with the number of the bucket; the rest is random."""
        return f"{number:0{_DIGITS}d}{clock.new_uuid()[_DIGITS:]}-0"

    def number_of(self, file_slice: FileSlice) -> int:
        """Return the bucket number at the beginning of a file slice's file id.

        Raises:
            OptionError: the file id does not begin with a bucket number, or the number is too large.
        """
        place = f"file group {file_slice.file_id} of partition {file_slice.partition_path or '(none)'}"
        if not _BUCKET_ID.match(file_slice.file_id):
            raise OptionError(
                f"{place} is not a bucket: the table was written with another index, and {o.INDEX_TYPE.key}=BUCKET would make "
                f"duplicates. Use that index, or write the rows to a new table"
            )
        number = int(file_slice.file_id[:_DIGITS])
        if number >= self.count:
            raise OptionError(
                f"{place} is bucket {number}, but {o.BUCKET_COUNT.key} is {self.count}; the number of buckets cannot change: "
                "set the one that the table was written with, or write the rows to a new table"
            )
        return number

    def by_number(self, slices: Iterable[FileSlice]) -> dict[int, FileSlice]:
        """Return the file slices of one partition by their bucket number, which is in the file id.

        Raises:
            CorruptFile: two file groups have the same bucket number.
        """
        slice_by_number: dict[int, FileSlice] = {}
        for file_slice in slices:
            number = self.number_of(file_slice)
            if number in slice_by_number:
                raise CorruptFile(
                    f"Find multiple files at partition path={file_slice.partition_path} belongs to the same bucket id = "
                    f"{number}: {slice_by_number[number].file_id} and {file_slice.file_id}; deduplicate the rows of the "
                    "partition and write them to it again"
                )
            slice_by_number[number] = file_slice
        return slice_by_number

    def check_keys(self, file_slice: FileSlice, keys: Sequence[str]) -> None:
        """Raise OptionError if one of `keys`, record keys that the file slice holds, hashes to another bucket than the slice's.

        In that case the table was written with other bucket options.
        """
        number = self.number_of(file_slice)
        if len(keys) and (self.numbers(pa.array(keys, pa.string())) != number).any():
            raise OptionError(
                f"file group {file_slice.file_id} of partition {file_slice.partition_path or '(none)'} holds keys of other "
                f"buckets: it was not written with {o.BUCKET_COUNT.key}={self.count} and "
                f"{o.BUCKET_HASH_FIELDS.key}={','.join(self.fields)}; neither can change: set those that the table was written "
                "with"
            )


def hash_keys(keys: RecordKeys, fields: Sequence[str]) -> Any:
    """Return a hash of each record key, as unsigned 32-bit numbers.

    The hash is Java's `List.hashCode` of the key's values in the columns `fields`. A null or empty value has the hash 0.
    """
    if not is_compound(keys):
        return np.uint32(31) + java_hash(keys)
    values, offsets = values_of_keys(keys, fields)
    counts = offsets[1:] - offsets[:-1]
    return powers_of_31(counts) + java_polynomial(java_hash(values), offsets)


def have_bucket_ids(file_ids: Iterable[str]) -> bool:
    """Whether all file ids begin with a bucket number: the bucket index with fixed buckets wrote the file groups."""
    return all(_SMALL_BUCKET_ID.match(file_id) for file_id in file_ids)

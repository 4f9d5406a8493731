"""The bucket index: the hash of a key determines its file group in the partition. No file is read to locate a key.

The index is the same for both kinds of buckets, `FixedBuckets` and `HashRings`, which `hoodie.index.bucket.engine` chooses.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from penstock import options as o
from penstock.index.bucket_hash import Buckets, FixedBuckets
from penstock.index.consistent_hashing import HashRings
from penstock.index.index import Index
from penstock.options import Options
from penstock.options.option import words
from penstock.table.state import TableState


@dataclass(frozen=True)
class BucketIndex(Index):
    """An index that hashes each key to a bucket. The bucket is the file group that holds the row of the key."""

    buckets: Buckets = field()
    name = "BUCKET"
    finds_rows_in_logs = True
    reason_to_keep = "the rows of the table are in buckets, and no other index would find them there"

    @classmethod
    def from_options(cls, options: Options) -> BucketIndex:
        """Return the index with the number and kind of buckets that the options set."""
        return cls(make_buckets(options))

    @property
    def inserts_into_logs(self) -> bool:
        """Whether new rows of a merge-on-read table are written to log files, in file groups without a base file."""
        return self.buckets.inserts_into_logs

    @property
    def setting(self) -> str:
        """The options that choose this index, with their values, for error messages."""
        return f"{o.INDEX_TYPE.key}={self.name} with {o.BUCKET_ENGINE.key}={self.buckets.engine}"

    @property
    def table_properties(self) -> dict[str, str]:
        """The bucket options that are stored in hoodie.properties of a new table. A later write with other values is refused."""
        return {
            o.INDEX_TYPE.key: self.name,
            o.BUCKET_ENGINE.key: self.buckets.engine,
            o.BUCKET_COUNT.key: str(self.buckets.count),
            o.BUCKET_HASH_FIELDS.key: ",".join(self.buckets.fields),
        }

    def load(self, table: TableState) -> BucketIndex:
        """Return a copy of the index with the hash rings of the table.

        A fixed number of buckets needs nothing from the table, so the copy has no changes then.
        """
        return replace(self, buckets=self.buckets.load(table))

    def check_unchanged(self, now: Index, partitions: Collection[str]) -> None:
        """Raise WriteConflict if a clustering split or joined buckets since the write assigned the incoming rows to buckets.

        Args:
            now: the index, loaded again after the write took its instant.
            partitions: the partition paths of the incoming rows.
        """
        if now.buckets is not None:
            self.buckets.check_unchanged(now.buckets, partitions)

    def check_overwrite(self, operation: str) -> None:
        """Raise Unsupported if an operation cannot replace the file groups of these buckets. Only hash rings refuse.

        Args:
            operation: the operation of the write, such as insert_overwrite.
        """
        self.buckets.check_overwrite(operation)

    def before_tasks(self, table: TableState, partitions: Collection[str]) -> None:
        """Store the hash rings of partitions that get their first rows. Does nothing with a fixed number of buckets."""
        self.buckets.save_partitions(table, partitions)


def make_buckets(options: Options) -> Buckets:
    """Return the buckets that the options define. If `hoodie.bucket.index.hash.field` is not set, all key columns are hashed."""
    fields = options[o.BUCKET_HASH_FIELDS] or words(options[o.RECORD_KEY_FIELD] or "")
    if options[o.BUCKET_ENGINE] == HashRings.engine:
        return HashRings(options[o.BUCKET_COUNT], fields)
    return FixedBuckets(options[o.BUCKET_COUNT], fields)

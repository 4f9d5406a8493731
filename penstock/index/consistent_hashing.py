"""Consistent hashing: a bucket of a partition is an arc of a ring of hash values. Each bucket has one file group.

The ring of a partition is stored in the file
`.hoodie/.bucket_index/consistent_hashing_metadata/<partition>/<instant>.hashing_meta`. A partition without that file has the
default ring: arcs of equal size, whose file ids are computed from the partition path. Clustering splits and joins buckets: it
writes another ring file, named after the instant of the clustering. That ring takes effect when the clustering completes. A
`delete_partition` does the same, because the partition needs new file ids afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import clock
from penstock import options as o
from penstock.errors import AlreadyExists, CorruptFile, OptionError, TableChanged, Unsupported
from penstock.filegroup.model import FileSlice
from penstock.formats.hashes import Int64s, xx_hash
from penstock.index.bucket_hash import Buckets
from penstock.index.key_fields import RecordKeys, is_compound, values_of_keys
from penstock.storage import Storage, join, walk
from penstock.table.listing import list_groups
from penstock.table.state import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import FOLDER

_RING_FOLDER = join(FOLDER, ".bucket_index", "consistent_hashing_metadata")
_RING_SUFFIX = ".hashing_meta"
#: Hudi adds an empty file `<instant>.commit` when the clustering that wrote a ring is completed.
_COMMITTED_SUFFIX = ".commit"
#: The instant in the file name of a partition's first ring, which no clustering wrote.
_FIRST_INSTANT = "00000000000000"
_GREATEST_HASH = 2**31 - 1


class Tag(str, Enum):
    """What a `Node` does to its arc of a hash ring, by Hudi's names.

    REPLACE adds the arc or sets its file id, DELETE removes it. NORMAL is the tag of every arc in a ring file.
    """

    NORMAL = "NORMAL"
    REPLACE = "REPLACE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class Node:
    """What a clustering does to one arc of a hash ring. A clustering plan lists these under Hudi's name, child nodes.

    The arc ends at the hash `value`. It gets the file id `prefix`, or is deleted if `tag` is DELETE.
    """

    value: int
    #: The file id without its last `-<number>`; None for a part that is deleted.
    prefix: str | None
    tag: Tag = Tag.REPLACE


@dataclass(frozen=True)
class Ring:
    """The hash ring of one partition. Bucket i is an arc: the keys with hash values above `values[i - 1]` up to `values[i]`.

    Keys with hash values above the last one belong to bucket 0.
    """

    values: tuple[int, ...]
    #: File ids of the buckets, without their last `-<number>`.
    prefixes: tuple[str, ...]
    #: How many buckets the first ring of the partition had. Hudi keeps this number in every later ring.
    first_count: int = 0
    #: How often the ring was changed. A clustering plan holds this number, by which a plan for an older ring is detected.
    changes: int = 0

    def numbers(self, hashes: Int64s) -> Int64s:
        """Return for each hash value the number of the bucket that holds keys with this hash."""
        return np.searchsorted(np.array(self.values, np.int64), hashes, side="left").astype(np.int64) % len(self.values)

    def number_of(self, file_id: str) -> int | None:
        """Return the number of the bucket with this file id; None if no bucket of the ring has it."""
        prefix = file_id.rpartition("-")[0]
        if prefix not in self.prefixes:
            return None
        return self.prefixes.index(prefix)

    def split_bucket(self, number: int) -> tuple[Node, Node] | None:
        """Return the changes of the ring that split a bucket into halves: two nodes. The ring itself stays unchanged.

        Return None if the arc of the bucket is too narrow to split. `apply` returns the ring with the changes.
        """
        end = self.values[number]
        start = self.values[number - 1]
        # Bucket 0 begins behind the last value and goes on at 0.
        end_beyond_start = end if start < end else end + _GREATEST_HASH + 1
        middle = ((start + end_beyond_start) >> 1) & _GREATEST_HASH
        if middle in (start, end):
            return None
        return Node(middle, clock.new_uuid()), Node(end, clock.new_uuid())

    def join_buckets(self, numbers: Sequence[int]) -> tuple[Node, ...]:
        """Return the changes of the ring that join consecutive buckets into one with a new file group.

        The ring itself stays unchanged. `apply` returns the ring with the changes.

        Args:
            numbers: the numbers of the buckets, in the order of the ring.
        """
        *deleted, last = (self.values[number] for number in numbers)
        return (*(Node(value, None, Tag.DELETE) for value in deleted), Node(last, clock.new_uuid()))

    def renew(self) -> Ring:
        """Return a copy of the ring with the same arcs and new file ids, for a partition whose file groups are replaced."""
        return self.apply(Node(value, clock.new_uuid()) for value in self.values)

    def apply(self, nodes: Iterable[Node]) -> Ring:
        """Return a copy of the ring with these changes: each node adds an arc, sets the file id of an arc, or deletes an arc."""
        prefix_by_value = dict(zip(self.values, self.prefixes, strict=True))
        for node in nodes:
            if node.tag is Tag.DELETE:
                prefix_by_value.pop(node.value, None)
            else:
                prefix_by_value[node.value] = str(node.prefix)
        values = tuple(sorted(prefix_by_value))
        prefixes = tuple(prefix_by_value[value] for value in values)
        return Ring(values, prefixes, self.first_count, self.changes + 1)


def default_ring(partition_path: str, count: int) -> Ring:
    """Return the default ring of a partition: `count` buckets of equal size, with file ids computed from the partition path."""
    step = -(-_GREATEST_HASH // count)
    ends = [min(step * number, _GREATEST_HASH) for number in range(1, count + 1)]
    starts = [0, *ends[:-1]]
    prefixes = tuple(_default_prefix(partition_path, start, end) for start, end in zip(starts, ends, strict=True))
    return Ring(tuple(ends), prefixes, count)


def _default_prefix(partition_path: str, start: int, end: int) -> str:
    """Return the file id of an arc of a default ring: a UUID computed from its hash range and the partition path, as in Hudi.

    The UUID is that of Java's `nameUUIDFromBytes`.

    Args:
        start: the hash value at which the arc begins, exclusive.
        end: the hash value at which the arc ends.
    """
    data = start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition_path.encode()
    digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30  # version 3
    digest[8] = digest[8] & 0x3F | 0x80  # variant 1
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@dataclass(frozen=True)
class HashRings(Buckets):
    """The hash rings of all partitions of a table, and the key columns whose values are hashed."""

    count: int
    fields: tuple[str, ...]
    #: The rings that are stored in the table, by partition path. Other partitions have the default ring.
    stored: Mapping[str, Ring] = field(default_factory=dict)
    engine = "CONSISTENT_HASHING"
    inserts_into_logs = True
    is_kept_in_table = True

    def ring(self, partition_path: str) -> Ring:
        """Return the ring of a partition: the stored ring if there is one, otherwise the default ring."""
        return self.stored.get(partition_path) or default_ring(partition_path, self.count)

    def numbers(self, keys: RecordKeys, partition_path: str = "") -> Int64s:
        """Return for each record key the number of the bucket, on the ring of the partition, that holds the key."""
        return self.ring(partition_path).numbers(self.hashes(keys))

    def hashes(self, keys: RecordKeys) -> Int64s:
        """Return the hash value of each record key: the position of the key on any ring."""
        return np.asarray(xx_hash(self._hashed_texts(keys)) & 0x7FFFFFFF).astype(np.int64)

    def _hashed_texts(self, keys: RecordKeys) -> RecordKeys:
        """Return the string to hash for each record key: its values in the columns `fields`, concatenated without separators.

        A null becomes "null", as in Java.
        """
        if not is_compound(keys):
            return keys
        values, offsets = values_of_keys(keys, self.fields)
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), pc.fill_null(values, "null"))
        return pc.binary_join(lists, "")

    def new_file_id(self, number: int, partition_path: str = "") -> str:
        """Return the file id that the partition's ring assigns to the bucket with this number."""
        return f"{self.ring(partition_path).prefixes[number]}-0"

    def number_of(self, file_slice: FileSlice) -> int:
        """Return the number of the bucket that a file slice belongs to, on the ring of the slice's partition.

        Raises:
            OptionError: the file group is not on that ring.
        """
        number = self.ring(file_slice.partition_path).number_of(file_slice.file_id)
        if number is not None:
            return number
        raise OptionError(
            f"file group {file_slice.file_id} of partition {file_slice.partition_path or '(none)'} is in no part of its ring: "
            f"the table was written with another index, or with another {o.BUCKET_COUNT.key} than {self.count}; use that one, or "
            "write the rows to a new table"
        )

    def by_number(self, slices: Iterable[FileSlice]) -> dict[int, FileSlice]:
        """Return the file slices of one partition by the number of their bucket on the partition's ring.

        Raises:
            OptionError: a file group is not on the ring.
        """
        return {self.number_of(file_slice): file_slice for file_slice in slices}

    def may_hold(self, file_slice: FileSlice, number: int) -> bool:
        """Whether a file slice may hold rows of the bucket with this number on the partition's ring.

        True for any number if the file group is not on the ring: a time travel query may read file groups of an earlier ring,
        which may hold rows of any bucket.
        """
        number_of_slice = self.ring(file_slice.partition_path).number_of(file_slice.file_id)
        return number_of_slice is None or number_of_slice == number

    def load(self, table: TableState) -> HashRings:
        """Return a copy with the ring in effect for each partition of the table, read from .hoodie/.bucket_index."""
        return replace(self, stored=_load_rings(table, join(table.base_path, _RING_FOLDER), ""))

    def save_partitions(self, table: TableState, partitions: Iterable[str]) -> None:
        """Store the default rings of partitions that have no stored ring. A concurrent writer would write the same bytes."""
        for partition_path in sorted(set(partitions) - self.stored.keys()):
            with suppress(AlreadyExists):
                text = ring_text(partition_path, self.ring(partition_path))
                table.storage.write_new(_make_ring_path(table, partition_path, _FIRST_INSTANT), text.encode())

    def renew_partitions(self, table: TableState, instant: str, partitions: Iterable[str]) -> None:
        """Store rings with new file ids for partitions whose file groups a replace commit replaces.

        With the old file ids, later rows would be written to file groups that readers ignore.

        Args:
            instant: the instant time of the replace commit.
        """
        renewed = {path: self.ring(path).renew() for path in partitions if path in self.stored}
        save_changed_rings(table, instant, renewed)

    def check_unchanged(self, now: Buckets, partitions: Collection[str]) -> None:
        """Raise WriteConflict if the ring of one of the partitions differs from the ring in `now`.

        Args:
            now: the hash rings, loaded again after the write took its instant.
            partitions: the partition paths of the incoming rows.
        """
        if not isinstance(now, HashRings):
            return
        for partition_path in sorted(partitions):
            if self.ring(partition_path) != now.ring(partition_path):
                raise TableChanged(
                    f"the buckets of partition {partition_path!r} were split or joined during this write. Run it again"
                )

    def check_overwrite(self, operation: str) -> None:
        """Raise Unsupported: a table with hash rings cannot be overwritten.

        The ring binds a bucket to its file group, so new rows would go to the replaced file groups, which readers ignore.
        """
        raise Unsupported(
            f"{o.BUCKET_ENGINE.key}={self.engine} binds a bucket to one file group, so {operation} cannot put another in its "
            "place; delete the rows and insert the new ones"
        )


def has_rings(table: TableState) -> bool:
    """Whether the table stores hash rings under .hoodie/.bucket_index, because it was written with consistent hashing."""
    top_folder = _RING_FOLDER.removeprefix(f"{FOLDER}/").partition("/")[0]
    return table.timeline.may_have_folder(top_folder) and table.storage.stat(join(table.base_path, _RING_FOLDER)) is not None


def _load_rings(table: TableState, folder: str, partition_path: str) -> dict[str, Ring]:
    """Return the rings in effect for a partition and for the partitions below it, partition path → ring.

    Args:
        folder: the folder that holds the partition's ring files.
    """
    if not table.storage.stat(folder):
        return {}
    rings: dict[str, Ring] = {}
    entries = table.storage.list(folder)
    names = {entry.name for entry in entries if not entry.is_dir}
    for name in sorted((name for name in names if name.endswith(_RING_SUFFIX)), reverse=True):
        ring = _ring_in_effect(table, folder, partition_path, name.removesuffix(_RING_SUFFIX), names)
        if ring is not None:
            rings[partition_path] = ring
            break
    for entry in entries:
        if entry.is_dir:
            below = f"{partition_path}/{entry.name}" if partition_path else entry.name
            rings |= _load_rings(table, join(folder, entry.name), below)
    return rings


def _ring_in_effect(table: TableState, folder: str, partition_path: str, instant: str, names: set[str]) -> Ring | None:
    """Return the ring in the ring file of an instant; None if that ring is not in effect.

    The first ring of a partition is in effect. A later ring is in effect if the clustering or replacing write that stored it has
    completed. If that instant is older than the timeline, the ring is in effect if one of the file groups that are new in it
    exists.

    Args:
        folder: the folder that holds the partition's ring files.
        names: the names of all files in `folder`.
    """
    path = join(folder, instant + _RING_SUFFIX)
    clustering = next((i for i in table.timeline.filter(Action.REPLACE_COMMIT) if i.time == instant), None)
    if clustering is not None and not clustering.is_completed:
        return None
    if clustering is not None or instant == _FIRST_INSTANT or f"{instant}{_COMMITTED_SUFFIX}" in names:
        return _read_ring(table.storage, path)
    if table.timeline.start is None or instant >= table.timeline.start:
        return None
    # The instant is older than the active timeline, which says nothing about it. If the clustering was completed, at least one
    # of the file groups that are new in its ring is there.
    older = [name for name in names if name.endswith(_RING_SUFFIX) and name.removesuffix(_RING_SUFFIX) < instant]
    prefixes_before = _read_ring(table.storage, join(folder, max(older))).prefixes if older else ()
    ring = _read_ring(table.storage, path)
    new_prefixes = set(ring.prefixes) - set(prefixes_before)
    if any(group.file_id.rpartition("-")[0] in new_prefixes for group in list_groups(table, [partition_path])):
        return ring
    return None


def _read_ring(storage: Storage, path: str) -> Ring:
    """Read a ring file. Raise CorruptFile if its content is not a hash ring."""
    try:
        content = json.loads(storage.read(path))
        nodes = sorted(content["nodes"], key=lambda node: node["value"])
        return Ring(
            values=tuple(int(node["value"]) for node in nodes),
            prefixes=tuple(str(node["fileIdPrefix"]) for node in nodes),
            first_count=int(content.get("numBuckets") or len(nodes)),
            changes=int(content.get("seqNo") or 0),
        )
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFile(f"{path} is not the ring of a partition: {e}; restore it from a copy") from e


def save_changed_rings(table: TableState, instant: str, rings: Mapping[str, Ring]) -> None:
    """Store the new rings of a clustering or replacing write, by partition path. They take effect when the write completes.

    Ring files that a crashed run of the same instant left are replaced.

    Args:
        instant: the instant time of the clustering or replacing write.
    """
    for partition_path, ring in rings.items():
        text = ring_text(partition_path, ring, instant)
        table.storage.replace(_make_ring_path(table, partition_path, instant), text.encode())


def drop_changed_rings(table: TableState, instant: str) -> None:
    """Delete the ring files of a clustering or replacing write that was unscheduled or rolled back.

    Hudi would consider these files valid once the instant is older than the active timeline.

    Args:
        instant: the instant time of the clustering or replacing write.
    """
    for entry in walk(table.storage, join(table.base_path, _RING_FOLDER)):
        if entry.name == instant + _RING_SUFFIX:
            table.storage.delete(entry.path)


def _make_ring_path(table: TableState, partition_path: str, instant: str) -> str:
    """Create the folder for a partition's ring files, and return the path of the ring file for an instant in that folder."""
    folder = join(table.base_path, _RING_FOLDER, partition_path)
    table.storage.make_dirs(folder)
    return join(folder, instant + _RING_SUFFIX)


def ring_text(partition_path: str, ring: Ring, instant: str = _FIRST_INSTANT) -> str:
    """Return the content of a ring file for a partition's ring: JSON with the same fields and line breaks as Hudi's.

    Args:
        instant: the instant time of the clustering that makes the ring; by default the one of a partition's first ring.
    """
    attributes: dict[str, object] = {
        "version": 0,
        "partitionPath": partition_path,
        "instant": instant,
        "numBuckets": ring.first_count or len(ring.values),
        "seqNo": ring.changes,
    }
    head = "".join(f"  {json.dumps(name)} : {json.dumps(value, ensure_ascii=False)},\n" for name, value in attributes.items())
    nodes = ", ".join(
        f'{{\n    "value" : {value},\n    "fileIdPrefix" : "{prefix}",\n    "tag" : "{Tag.NORMAL.value}"\n  }}'
        for value, prefix in zip(ring.values, ring.prefixes, strict=True)
    )
    return f'{{\n{head}  "nodes" : [ {nodes} ]\n}}'

"""Consistent hashing: the buckets of a partition are parts of a ring of hash values, each with a file group of its own.

The ring of a partition is kept in `.hoodie/.bucket_index/consistent_hashing_metadata/<partition>/<instant>.hashing_meta`. A
partition without one has the default ring, parts of one size whose file ids follow from the partition path. Clustering splits and
joins parts by writing another ring, named by its instant, which counts from when the clustering is completed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import clock
from penstock import options as o
from penstock.catalog.listing import list_groups
from penstock.errors import AlreadyExists, CorruptFile, OptionError
from penstock.filegroup.model import FileSlice
from penstock.formats.hashes import Int64s, xx_hash
from penstock.index.key_fields import is_compound, values_of_keys
from penstock.storage import Storage, join, walk
from penstock.table import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import FOLDER

Keys: TypeAlias = "pa.Array[Any]"

_METADATA = join(FOLDER, ".bucket_index", "consistent_hashing_metadata")
_META, _COMMITTED = ".hashing_meta", ".commit"
#: The instant of a ring that no clustering made.
_FIRST = "00000000000000"
_GREATEST = 2**31 - 1


class Tag(str, Enum):
    """What becomes of a part of a ring, in Hudi's words."""

    NORMAL = "NORMAL"
    REPLACE = "REPLACE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class Node:
    """A change of a ring: the part that ends at `value` has this file id now, or is no more."""

    value: int
    prefix: str | None
    tag: Tag = Tag.REPLACE


@dataclass(frozen=True)
class Ring:
    """The parts of one partition: part i holds the hash values up to `values[i]`, and those beyond the last go to the first."""

    values: tuple[int, ...]
    prefixes: tuple[str, ...]
    #: How many parts the first ring had, which Hudi keeps saying; and how often it was changed since.
    first_count: int = 0
    changes: int = 0

    def numbers(self, hashes: Int64s) -> Int64s:
        """The part of each hash value."""
        return np.searchsorted(np.array(self.values, np.int64), hashes, side="left").astype(np.int64) % len(self.values)

    def number_of(self, file_id: str) -> int | None:
        """The part that a file group belongs to, if any."""
        prefix = file_id.rpartition("-")[0]
        return self.prefixes.index(prefix) if prefix in self.prefixes else None

    def split(self, number: int) -> tuple[Node, Node] | None:
        """A part in two of one size, with new file groups; None if it has a single hash value."""
        end, before = self.values[number], self.values[number - 1]
        middle = ((before + end + (0 if before < end else _GREATEST + 1)) >> 1) & _GREATEST
        if middle in (before, end):
            return None
        return Node(middle, clock.new_uuid()), Node(end, clock.new_uuid())

    def joined(self, numbers: Sequence[int]) -> tuple[Node, ...]:
        """Parts that follow one another as one, with a new file group."""
        *gone, last = (self.values[number] for number in numbers)
        return (*(Node(value, None, Tag.DELETE) for value in gone), Node(last, clock.new_uuid()))

    def renewed(self) -> Ring:
        """The same parts with new file groups, where the old ones are not seen any more."""
        return self.changed(Node(value, clock.new_uuid()) for value in self.values)

    def changed(self, nodes: Iterable[Node]) -> Ring:
        """The ring with some parts replaced or gone."""
        parts = dict(zip(self.values, self.prefixes, strict=True))
        for node in nodes:
            if node.tag is Tag.DELETE:
                parts.pop(node.value, None)
            else:
                parts[node.value] = str(node.prefix)
        values = tuple(sorted(parts))
        return Ring(values, tuple(parts[value] for value in values), self.first_count, self.changes + 1)


def default_ring(path: str, count: int) -> Ring:
    """The ring of a partition that no clustering has changed."""
    step = -(-_GREATEST // count)
    ends = [min(step * i, _GREATEST) for i in range(1, count + 1)]
    return Ring(tuple(ends), tuple(_prefix(path, start, end) for start, end in zip([0, *ends], ends, strict=False)), count)


def _prefix(path: str, start: int, end: int) -> str:
    """A UUID made from the part of the ring and the partition, as Java's `nameUUIDFromBytes` does."""
    data = start.to_bytes(8, "big") + end.to_bytes(8, "big") + path.encode()
    made = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
    made[6], made[8] = made[6] & 0x0F | 0x30, made[8] & 0x3F | 0x80  # version 3, variant 1
    text = made.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@dataclass(frozen=True)
class HashRings:
    """The rings of a table's partitions, and the key columns whose values choose a place."""

    count: int
    fields: tuple[str, ...]
    stored: Mapping[str, Ring] = field(default_factory=dict)

    def ring(self, path: str) -> Ring:
        """The ring of a partition."""
        return self.stored.get(path) or default_ring(path, self.count)

    def numbers(self, keys: Keys, path: str = "") -> Int64s:
        """The part of the partition's ring that each record key belongs to."""
        return self.ring(path).numbers(self.hashes(keys))

    def hashes(self, keys: Keys) -> Int64s:
        """The place of each record key on a ring."""
        return np.asarray(xx_hash(self._joined(keys)) & 0x7FFFFFFF).astype(np.int64)

    def _joined(self, keys: Keys) -> Keys:
        """The values that count of each key, one behind the other; Java joins a null as the text `null`."""
        if not is_compound(keys):
            return keys
        values, offsets = values_of_keys(keys, self.fields)
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), pc.fill_null(values, "null"))
        return pc.binary_join(lists, "")

    def new_file_id(self, number: int, path: str = "") -> str:
        """The file id of a part of the ring."""
        return f"{self.ring(path).prefixes[number]}-0"

    def number_of(self, slice_: FileSlice) -> int:
        """The part of the ring that a file group belongs to.

        Raises:
            OptionError: it belongs to none.
        """
        if (number := self.ring(slice_.partition_path).number_of(slice_.file_id)) is not None:
            return number
        raise OptionError(
            f"file group {slice_.file_id} of partition {slice_.partition_path or '(none)'} is in no part of its ring: "
            f"the table was written with another index, or with another {o.BUCKET_COUNT.key} than {self.count}; use that one, or "
            "write the rows to a new table"
        )

    def by_number(self, slices: Iterable[FileSlice]) -> dict[int, FileSlice]:
        """The file slices of one partition, by their parts of the ring."""
        return {self.number_of(one): one for one in slices}

    def check_keys(self, slice_: FileSlice, keys: Sequence[str]) -> None:
        """A file group that has a part of the ring holds its keys: both follow from the same file."""


def has_rings(table: TableState) -> bool:
    """Whether a table has rings: consistent hashing wrote it."""
    return table.storage.stat(join(table.base_path, _METADATA)) is not None


def load_rings(table: TableState, rings: HashRings) -> HashRings:
    """The same with the rings that the table keeps."""
    return replace(rings, stored=dict(_found(table, join(table.base_path, _METADATA), "")))


def _found(table: TableState, folder: str, path: str) -> Iterable[tuple[str, Ring]]:
    entries = table.storage.list(folder) if table.storage.stat(folder) else []
    names = {e.name for e in entries if not e.is_dir}
    metas = sorted(name for name in names if name.endswith(_META))
    for name in reversed(metas):
        if (ring := _in_use(table, folder, path, name[: -len(_META)], names)) is not None:
            yield path, ring
            break
    for entry in entries:
        if entry.is_dir:
            yield from _found(table, join(folder, entry.name), f"{path}/{entry.name}" if path else entry.name)


def _in_use(table: TableState, folder: str, path: str, instant: str, names: set[str]) -> Ring | None:
    """A ring that counts: the first one, or one whose clustering is done.

    Of a clustering that is archived the timeline says nothing any more; then its file groups are there, or they are not.
    """
    name = join(folder, instant + _META)
    known = next((one for one in table.timeline.of(Action.REPLACE_COMMIT) if one.time == instant), None)
    if known is not None and not known.is_completed:
        return None
    if known is not None or instant == _FIRST or f"{instant}{_COMMITTED}" in names:
        return _read(table.storage, name)
    if table.timeline.start is None or instant >= table.timeline.start:
        return None
    older = max((m for m in names if m.endswith(_META) and m[: -len(_META)] < instant), default=None)
    ring, before = _read(table.storage, name), _read(table.storage, join(folder, older)).prefixes if older else ()
    made = set(ring.prefixes) - set(before)
    return ring if any(group.file_id.rpartition("-")[0] in made for group in list_groups(table, [path])) else None


def _read(storage: Storage, name: str) -> Ring:
    try:
        said = json.loads(storage.read(name))
        nodes = sorted(said["nodes"], key=lambda node: node["value"])
        values, prefixes = tuple(int(n["value"]) for n in nodes), tuple(str(n["fileIdPrefix"]) for n in nodes)
        return Ring(values, prefixes, int(said.get("numBuckets") or len(nodes)), int(said.get("seqNo") or 0))
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFile(f"{name} is not the ring of a partition: {e}; restore it from a copy") from e


def save_rings(table: TableState, rings: HashRings, paths: Iterable[str]) -> None:
    """Keep the rings of partitions that have none yet; another writer makes the same."""
    for path in sorted(set(paths) - rings.stored.keys()):
        with suppress(AlreadyExists):
            table.storage.write_new(_place(table, path, _FIRST), ring_text(path, rings.ring(path)).encode())


def save_changed(table: TableState, instant: str, changed: Mapping[str, Ring]) -> None:
    """Keep rings that a clustering or a replacing write makes; they count when it is completed. A lost run may have left some."""
    for path, ring in changed.items():
        table.storage.replace(_place(table, path, instant), ring_text(path, ring, instant).encode())


def drop_changed(table: TableState, instant: str) -> None:
    """Remove the rings of a clustering that is given up or undone; Hudi could take them for good when it is out of sight."""
    for entry in walk(table.storage, join(table.base_path, _METADATA)):
        if entry.name == instant + _META:
            table.storage.delete(entry.path)


def _place(table: TableState, path: str, instant: str) -> str:
    folder = join(table.base_path, _METADATA, path)
    table.storage.make_dirs(folder)
    return join(folder, instant + _META)


def ring_text(path: str, ring: Ring, instant: str = _FIRST) -> str:
    """A ring as its file holds it, laid out like Hudi's."""
    said: dict[str, object] = {
        "version": 0,
        "partitionPath": path,
        "instant": instant,
        "numBuckets": ring.first_count or len(ring.values),
        "seqNo": ring.changes,
    }
    head = "".join(f"  {json.dumps(name)} : {json.dumps(value, ensure_ascii=False)},\n" for name, value in said.items())
    nodes = ", ".join(
        f'{{\n    "value" : {value},\n    "fileIdPrefix" : "{prefix}",\n    "tag" : "{Tag.NORMAL.value}"\n  }}'
        for value, prefix in zip(ring.values, ring.prefixes, strict=True)
    )
    return f'{{\n{head}  "nodes" : [ {nodes} ]\n}}'

"""Consistent hashing: the buckets of a partition are parts of a ring of hash values, each with a file group of its own.

The ring of a partition is kept in `.hoodie/.bucket_index/consistent_hashing_metadata/<partition>/<instant>.hashing_meta`. A
partition without one has the default ring, parts of one size whose file ids follow from the partition path. Clustering splits and
joins parts by writing another ring; Penstock reads such rings, and does not make them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import options as o
from penstock.errors import AlreadyExists, CorruptFile, OptionError, Unsupported
from penstock.filegroup.model import FileSlice
from penstock.formats.hashes import Int64s, xx_hash
from penstock.index.key_values import is_compound, values_of_keys
from penstock.storage import Storage, join
from penstock.table import TableState
from penstock.timeline.instant import Action, State
from penstock.timeline.store import FOLDER

Keys: TypeAlias = "pa.Array[Any]"

_METADATA = join(FOLDER, ".bucket_index", "consistent_hashing_metadata")
_META, _COMMITTED = ".hashing_meta", ".commit"
#: The instant of a ring that no clustering made.
_FIRST = "00000000000000"
_GREATEST = 2**31 - 1


@dataclass(frozen=True)
class Ring:
    """The parts of one partition: part i holds the hash values up to `values[i]`, and those beyond the last go to the first."""

    values: tuple[int, ...]
    prefixes: tuple[str, ...]

    def numbers(self, hashes: Int64s) -> Int64s:
        """The part of each hash value."""
        return np.searchsorted(np.array(self.values, np.int64), hashes, side="left").astype(np.int64) % len(self.values)


def default_ring(path: str, count: int) -> Ring:
    """The ring of a partition that no clustering has changed."""
    step = -(-_GREATEST // count)
    ends = [min(step * i, _GREATEST) for i in range(1, count + 1)]
    return Ring(tuple(ends), tuple(_prefix(path, start, end) for start, end in zip([0, *ends], ends, strict=False)))


def _prefix(path: str, start: int, end: int) -> str:
    """A UUID made from the part of the ring and the partition, as Java's `nameUUIDFromBytes` does."""
    data = start.to_bytes(8, "big") + end.to_bytes(8, "big") + path.encode()
    made = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
    made[6], made[8] = made[6] & 0x0F | 0x30, made[8] & 0x3F | 0x80  # version 3, variant 1
    text = made.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@dataclass(frozen=True)
class Rings:
    """The rings of a table's partitions, and the key columns whose values choose a place."""

    count: int
    fields: tuple[str, ...]
    stored: Mapping[str, Ring] = field(default_factory=dict)

    def ring(self, path: str) -> Ring:
        """The ring of a partition."""
        return self.stored.get(path) or default_ring(path, self.count)

    def numbers(self, keys: Keys, path: str = "") -> Int64s:
        """The part of the partition's ring that each record key belongs to."""
        return self.ring(path).numbers((xx_hash(self._joined(keys)) & 0x7FFFFFFF).astype(np.int64))

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
        with suppress(ValueError):
            return self.ring(slice_.partition_path).prefixes.index(slice_.file_id.rpartition("-")[0])
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


def load_rings(table: TableState, rings: Rings) -> Rings:
    """The same with the rings that the table keeps.

    Raises:
        Unsupported: a clustering is under way, during which rows go to two places.
    """
    if any(i.state is not State.COMPLETED for i in table.timeline.of(Action.REPLACE_COMMIT)):
        raise Unsupported(
            f"a clustering of {table.base_path} is pending, and its buckets may be split or joined by it; run it with Hudi first"
        )
    root = join(table.base_path, _METADATA)
    return replace(rings, stored=dict(_found(table, root, "")))


def _found(table: TableState, folder: str, path: str) -> Iterable[tuple[str, Ring]]:
    entries = table.storage.list(folder) if table.storage.stat(folder) else []
    names = {e.name for e in entries if not e.is_dir}
    metas = sorted(name for name in names if name.endswith(_META))
    if name := next((m for m in reversed(metas) if _counts(table, m[: -len(_META)], names)), None):
        yield path, _read(table.storage, join(folder, name))
    for entry in entries:
        if entry.is_dir:
            yield from _found(table, join(folder, entry.name), f"{path}/{entry.name}" if path else entry.name)


def _counts(table: TableState, instant: str, names: set[str]) -> bool:
    """Whether a ring is in use: the first one is, and one whose clustering is done."""
    if instant == _FIRST or f"{instant}{_COMMITTED}" in names:
        return True
    done = table.timeline.of(Action.REPLACE_COMMIT, state=State.COMPLETED)
    return any(one.time == instant for one in done)


def _read(storage: Storage, name: str) -> Ring:
    try:
        nodes = sorted(json.loads(storage.read(name))["nodes"], key=lambda node: node["value"])
        return Ring(tuple(int(n["value"]) for n in nodes), tuple(str(n["fileIdPrefix"]) for n in nodes))
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFile(f"{name} is not the ring of a partition: {e}; restore it from a copy") from e


def save_rings(table: TableState, rings: Rings, paths: Iterable[str]) -> None:
    """Keep the rings of partitions that have none yet; another writer makes the same."""
    for path in sorted(set(paths) - rings.stored.keys()):
        folder = join(table.base_path, _METADATA, path) if path else join(table.base_path, _METADATA)
        table.storage.make_dirs(folder)
        with suppress(AlreadyExists):
            table.storage.write_new(join(folder, _FIRST + _META), ring_text(path, rings.ring(path)).encode())


def ring_text(path: str, ring: Ring) -> str:
    """A ring as its file holds it, laid out like Hudi's."""
    said: dict[str, object] = {
        "version": 0,
        "partitionPath": path,
        "instant": _FIRST,
        "numBuckets": len(ring.values),
        "seqNo": 0,
    }
    head = "".join(f"  {json.dumps(name)} : {json.dumps(value, ensure_ascii=False)},\n" for name, value in said.items())
    nodes = ", ".join(
        f'{{\n    "value" : {value},\n    "fileIdPrefix" : "{prefix}",\n    "tag" : "NORMAL"\n  }}'
        for value, prefix in zip(ring.values, ring.prefixes, strict=True)
    )
    return f'{{\n{head}  "nodes" : [ {nodes} ]\n}}'

"""`penstock.index=auto`: which index looks for the keys of a batch, and why. Decides from names, sizes and a few footers.

The choice is between the indexes that look into files, which may follow one another freely, and keeps to the reach that was asked
for: one partition, or all. `SIMPLE` reads the key column of every file. `BLOOM` first asks the footers, which pays where these
rule out many files: where keys are ordered, so that files have ranges of their own, or where a batch has few rows for many files.
Four things count: how large the files are, whether their keys are ordered, over how many partitions and files the batch fans out,
and how many rows it has. An index that is for a table's life, or keeps what it knows elsewhere, stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.filegroup.model import FileSlice
from penstock.index import Index
from penstock.index.bloom import BloomIndex
from penstock.index.lookup import read_key_range
from penstock.index.simple import SimpleIndex
from penstock.progress import format_bytes
from penstock.storage import Storage

#: Files whose footers are looked at.
_SAMPLED = 8
#: Files that overlap with more than this share of the others say that keys come in no order.
_OVERLAP = 0.5
#: Filters are worth asking if they can rule out at least this share of the files.
_RULED_OUT = 0.2
#: Key columns of tables up to this size are read sooner than footers are weighed.
_SMALL_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Choice:
    """An index, and what speaks for it."""

    index: Index
    why: str


def choose_index(storage: Storage, index: Index, rows: Mapping[str, int], slices: Mapping[str, Sequence[FileSlice]]) -> Choice:
    """The index for a batch whose keys may be in these file slices.

    Args:
        index: says how far keys are looked for.
        rows: how many rows the batch has for each partition.
    """
    files = {path: [s.base_file for s in its if s.base_file] for path, its in slices.items()}
    count, size = sum(map(len, files.values())), sum(f.size_bytes for its in files.values() for f in its)
    if not index.is_global and max(map(len, slices.values()), default=0) <= 1:
        return _simple(index, "no partition of the batch has more than one file group, so each file is read once anyway")
    if size <= _SMALL_BYTES:
        return _simple(index, f"the files are small ({format_bytes(size)} in all), and reading their keys costs little")
    overlap = _overlap(storage, max(slices.values(), key=len))
    if overlap is None:
        return _simple(index, "the files carry no key ranges")
    if overlap <= _OVERLAP:
        return _bloom(index, f"keys are ordered: the key range of a file overlaps with {overlap:.0%} of the others")
    left_out = _left_out(rows, {path: len(its) for path, its in files.items()}, everywhere=index.is_global)
    load = f"{sum(rows.values()):,} rows for {count:,} files of {_partitions(len(slices))}"
    if left_out < _RULED_OUT:
        return _simple(index, f"keys are in no order, and {load} leave {left_out:.0%} without a row, too few to ask filters")
    return _bloom(index, f"keys are in no order, but {load} leave {left_out:.0%} of them without any, which filters can tell")


def _left_out(rows: Mapping[str, int], files: Mapping[str, int], *, everywhere: bool) -> float:
    """The share of files that no row is in, if rows fall into files at random: of their partition, or of all."""
    count = sum(files.values())
    if everywhere:
        return math.exp(-sum(rows.values()) / count)
    return sum(its * math.exp(-rows.get(path, 0) / its) for path, its in files.items() if its) / count


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _simple(index: Index, why: str) -> Choice:
    return Choice(SimpleIndex(is_global=index.is_global, moves_rows=index.moves_rows), why)


def _bloom(index: Index, why: str) -> Choice:
    return Choice(BloomIndex(is_global=index.is_global, moves_rows=index.moves_rows), why)


def _overlap(storage: Storage, slices: Sequence[FileSlice]) -> float | None:
    """With what share of the other files the key range of a file overlaps, by a few of them; None if they have no ranges."""
    files = [s.base_file for s in slices if s.base_file]
    chosen = [files[i] for i in np.unique(np.linspace(0, len(files) - 1, _SAMPLED, dtype=np.int64))] if files else []
    ranges = [found for file in chosen if (found := read_key_range(storage, file)) is not None]
    if len(ranges) < 2:
        return None
    pairs = [(one, other) for i, one in enumerate(ranges) for other in ranges[i + 1 :]]
    return sum(one[0] <= other[1] and other[0] <= one[1] for one, other in pairs) / len(pairs)

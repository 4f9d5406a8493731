"""`penstock.index=auto`: chooses the simple or the bloom index for the incoming rows of a write, and says why.

Both indexes locate keys by reading base files, and store no data of their own in the table. So each write may choose differently.
The chosen index is global if the index in the options is global.

The simple index reads the key column of each base file. The bloom index reads the footers first and skips the files that the key
range or the bloom filter rules out. That pays if it rules out many files: if keys are ordered, so that the key ranges of files
differ, or if a batch has few rows for many files. The choice depends on the size of the files, the overlap of a few sampled key
ranges, the number of files and the number of incoming rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from penstock.filegroup.key_footer import read_key_range
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.index import Index
from penstock.index.bloom import BloomIndex
from penstock.index.simple import SimpleIndex
from penstock.progress import format_bytes
from penstock.storage import Storage

#: How many base files are sampled for their key range.
_SAMPLED_FILES = 8
#: Keys count as unordered if a key range overlaps with more than this share of the other key ranges.
_MOST_OVERLAP = 0.5
#: Bloom filters are worth reading if they can rule out at least this share of the files.
_LEAST_RULED_OUT = 0.2
#: Up to this total size of the base files, reading their key columns costs less than sampling footers.
_SMALL_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class ChosenIndex:
    """The index that `penstock.index=auto` chose for a write, and the reason in words, which the commit records."""

    index: Index
    why: str


def choose_index(
    storage: Storage, index: Index, rows: Mapping[str, int], slices: Mapping[str, Sequence[FileSlice]]
) -> ChosenIndex:
    """Choose the simple or the bloom index to locate the keys of the incoming rows; return the index and the reason.

    May read the footers of a few base files.

    Args:
        index: the index in the options. The chosen index is global, and moves rows to other partitions, if this index does.
        rows: how many incoming rows each partition path has.
        slices: the file slices that may hold the keys, by partition path.
    """
    files = {path: _list_base_files(slices_of_path) for path, slices_of_path in slices.items()}
    count = sum(len(files_of_path) for files_of_path in files.values())
    size = sum(file.size_bytes for file in chain.from_iterable(files.values()))
    if not index.is_global and max(map(len, slices.values()), default=0) <= 1:
        return _simple(index, "no partition of the batch has more than one file group, so each file is read once anyway")
    if size <= _SMALL_BYTES:
        return _simple(index, f"the files are small ({format_bytes(size)} in all), and reading their keys costs little")
    overlap = _measure_overlap(storage, _list_base_files(max(slices.values(), key=len)))
    if overlap is None:
        return _simple(index, "the files carry no key ranges")
    if overlap <= _MOST_OVERLAP:
        return _bloom(index, f"keys are ordered: the key range of a file overlaps with {overlap:.0%} of the others")
    files_by_path = {path: len(files_of_path) for path, files_of_path in files.items()}
    ruled_out = _estimate_ruled_out(rows, files_by_path, is_global=index.is_global)
    load = f"{sum(rows.values()):,} rows for {count:,} files of {_format_partitions(len(slices))}"
    if ruled_out < _LEAST_RULED_OUT:
        return _simple(index, f"keys are in no order, and {load} leave {ruled_out:.0%} without a row, too few to ask filters")
    return _bloom(index, f"keys are in no order, but {load} leave {ruled_out:.0%} of them without any, which filters can tell")


def _list_base_files(slices: Sequence[FileSlice]) -> list[BaseFile]:
    """Return the base files of these file slices. Slices with only log files are left out."""
    return [file_slice.base_file for file_slice in slices if file_slice.base_file]


def _estimate_ruled_out(rows: Mapping[str, int], files: Mapping[str, int], *, is_global: bool) -> float:
    """Estimate the share of base files that hold no incoming key, if keys are spread over files at random.

    If n keys fall into m files at random, a file gets none of them with the probability (1 - 1/m)^n, about exp(-n/m).

    Args:
        rows: how many incoming rows each partition path has.
        files: how many base files each partition path has.
        is_global: whether a key may be in any file. Otherwise it is in a file of its row's partition.
    """
    count = sum(files.values())
    if is_global:
        return math.exp(-sum(rows.values()) / count)
    ruled_out = 0.0
    for path, files_of_path in files.items():
        if files_of_path:
            ruled_out += files_of_path * math.exp(-rows.get(path, 0) / files_of_path)
    return ruled_out / count


def _format_partitions(count: int) -> str:
    """Return the number of partitions in words, for example `3 partitions`."""
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _simple(index: Index, why: str) -> ChosenIndex:
    """Return a `ChosenIndex` with the simple index.

    Args:
        index: the index in the options. The simple index gets its settings `is_global` and `moves_rows`.
        why: the reason for the choice, in words.
    """
    return ChosenIndex(SimpleIndex(is_global=index.is_global, moves_rows=index.moves_rows), why)


def _bloom(index: Index, why: str) -> ChosenIndex:
    """Return a `ChosenIndex` with the bloom index.

    Args:
        index: the index in the options. The bloom index gets its settings `is_global` and `moves_rows`.
        why: the reason for the choice, in words.
    """
    return ChosenIndex(BloomIndex(is_global=index.is_global, moves_rows=index.moves_rows), why)


def _measure_overlap(storage: Storage, files: Sequence[BaseFile]) -> float | None:
    """Estimate how much the key ranges of base files overlap: the share of pairs of ranges that overlap, from 0 to 1.

    Reads the footers of a few of the files, spread evenly over the list. Return None if fewer than two of these footers have a
    key range.
    """
    if not files:
        return None
    ranges = []
    for number in np.unique(np.linspace(0, len(files) - 1, _SAMPLED_FILES, dtype=np.int64)):
        key_range = read_key_range(storage, files[number])
        if key_range is not None:
            ranges.append(key_range)
    if len(ranges) < 2:
        return None
    overlaps = [first[0] <= second[1] and second[0] <= first[1] for first, second in combinations(ranges, 2)]
    return sum(overlaps) / len(overlaps)

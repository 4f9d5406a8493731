"""`Pruning`: how an index rules out base files by their footers, before the key column is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pruning:
    """Which parts of a base file's footer are used to skip the file: the key range, the bloom filter, both or none."""

    ranges: bool = False
    blooms: bool = False

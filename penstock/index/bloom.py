"""The bloom index: skips base files by the key range and the bloom filter in their footers. `BLOOM` and `GLOBAL_BLOOM`.

A file that may hold a key is then read as the simple index reads it, so both find the same rows (`lookup.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock import options as o
from penstock.index.index import Index, Located, Locator
from penstock.index.lookup import Pruning
from penstock.options import Options

_GLOBAL = "GLOBAL_BLOOM"


@dataclass(frozen=True)
class BloomIndex(Index):
    """Locates keys by asking the footers of base files, then reading the key columns of those that may hold one."""

    is_global: bool = False
    moves_rows: bool = False
    #: Whether files are skipped by their key ranges too, not only by their bloom filters.
    uses_ranges: bool = True
    reason_to_keep = None
    moves_option = o.BLOOM_UPDATE_PARTITION_PATH.key

    @classmethod
    def from_options(cls, options: Options) -> BloomIndex:
        """Return the index that the options ask for."""
        is_global = options[o.INDEX_TYPE] == _GLOBAL
        return cls(
            is_global=is_global,
            moves_rows=is_global and options[o.BLOOM_UPDATE_PARTITION_PATH],
            uses_ranges=options[o.BLOOM_PRUNE_BY_RANGES],
        )

    @property
    def name(self) -> str:
        """BLOOM or GLOBAL_BLOOM."""
        return _GLOBAL if self.is_global else "BLOOM"

    @property
    def pruning(self) -> Pruning:
        """Footers are used to skip files."""
        return Pruning(ranges=self.uses_ranges, blooms=True)

    def locate(self, locator: Locator[Located]) -> Located:
        """Look for the keys in base files that the footers do not rule out."""
        return locator.look_into_files()

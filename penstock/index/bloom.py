"""The bloom index, `BLOOM` and `GLOBAL_BLOOM`: skips base files by the key range and the bloom filter in their footers.

The key column of the remaining files is read, as by the simple index. `write/locate/key_lookup.py` does this for both indexes, so
both find the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock import options as o
from penstock.index.index import Index
from penstock.index.pruning import Pruning
from penstock.options import Options

_GLOBAL = "GLOBAL_BLOOM"


@dataclass(frozen=True)
class BloomIndex(Index):
    """An index that reads the key columns of base files. It skips files whose footers show that they hold none of the keys."""

    is_global: bool = False
    moves_rows: bool = False
    #: Whether to skip files by their key ranges too, not only by their bloom filters.
    uses_ranges: bool = True
    reason_to_keep = None
    moves_option = o.BLOOM_UPDATE_PARTITION_PATH.key

    @classmethod
    def from_options(cls, options: Options) -> BloomIndex:
        """Return the index with the settings of the `hoodie.bloom.index.*` options."""
        is_global = options[o.INDEX_TYPE] == _GLOBAL
        return cls(
            is_global=is_global,
            moves_rows=is_global and options[o.BLOOM_UPDATE_PARTITION_PATH],
            uses_ranges=options[o.BLOOM_PRUNE_BY_RANGES],
        )

    @property
    def name(self) -> str:
        """The value of `hoodie.index.type`: BLOOM, or GLOBAL_BLOOM if keys are unique in the whole table."""
        return _GLOBAL if self.is_global else "BLOOM"

    @property
    def pruning(self) -> Pruning:
        """The parts of base file footers by which files are skipped: the bloom filter, and the key range too if `uses_ranges`."""
        return Pruning(ranges=self.uses_ranges, blooms=True)

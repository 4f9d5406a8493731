"""The simple index, `SIMPLE` and `GLOBAL_SIMPLE`: reads the key column of every base file that may hold a key."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import options as o
from penstock.index.index import Index
from penstock.options import Options

_GLOBAL = "GLOBAL_SIMPLE"


@dataclass(frozen=True)
class SimpleIndex(Index):
    """An index that reads the key columns of base files."""

    is_global: bool = False
    moves_rows: bool = False
    reason_to_keep = None
    moves_option = o.SIMPLE_UPDATE_PARTITION_PATH.key

    @classmethod
    def from_options(cls, options: Options) -> SimpleIndex:
        """Return the index with the settings of the `hoodie.simple.index.*` options."""
        is_global = options[o.INDEX_TYPE] == _GLOBAL
        return cls(is_global=is_global, moves_rows=is_global and options[o.SIMPLE_UPDATE_PARTITION_PATH])

    @property
    def name(self) -> str:
        """The value of `hoodie.index.type`: SIMPLE, or GLOBAL_SIMPLE if keys are unique in the whole table."""
        return _GLOBAL if self.is_global else "SIMPLE"

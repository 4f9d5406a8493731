"""Where a key lives. One line per index; the lookup itself is shared.

An index that reads base files is described by what it may use of their footers and by whether it looks at partitions
other than the incoming row's. One that keeps entries of its own (`entries`) is asked for keys instead, and told of new ones.
One that finds keys in log files says so (`sees_logs`); assigning and appending go by that. The bucket index reads none: a hash
of the key says where it lives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock import options as o
from penstock.errors import Unsupported
from penstock.index.bucket import Buckets, buckets_of
from penstock.index.consistent_hashing import HashRings, load_rings
from penstock.index.hbase import HBaseSettings, hbase_settings
from penstock.index.lookup import Pruning
from penstock.options import Options
from penstock.table import TableState


@dataclass(frozen=True)
class Index:
    """How incoming keys are located."""

    name: str
    is_global: bool
    pruning: Pruning
    #: A row whose partition changed moves; otherwise it is updated where it is. Global indexes only.
    moves: bool = False
    #: It finds keys that are in log files alone. In a merge-on-read table new rows then go to logs too, with no base file.
    sees_logs: bool = False
    #: It knows the file groups that this process wrote, and no others.
    remembers: bool = False
    #: Keys are located by a hash of them; None: by looking into files.
    buckets: Buckets | HashRings | None = None
    #: Where its entries are, if it keeps any.
    entries: HBaseSettings | None = None

    @property
    def moves_option(self) -> str:
        """The option that says so."""
        if self.name == "HBASE":
            return o.HBASE_UPDATE_PARTITION_PATH.key
        return (o.BLOOM_UPDATE_PARTITION_PATH if "BLOOM" in self.name else o.SIMPLE_UPDATE_PARTITION_PATH).key


def index_of(options: Options) -> Index:
    """The index that the options ask for."""
    name = options[o.INDEX_TYPE].upper()
    ranges = options[o.BLOOM_PRUNE_BY_RANGES]
    if name == "SIMPLE":
        return Index(name, False, Pruning())
    if name == "BLOOM":
        return Index(name, False, Pruning(ranges=ranges, blooms=True))
    if name == "GLOBAL_SIMPLE":
        return Index(name, True, Pruning(), moves=options[o.SIMPLE_UPDATE_PARTITION_PATH])
    if name == "GLOBAL_BLOOM":
        return Index(name, True, Pruning(ranges=ranges, blooms=True), moves=options[o.BLOOM_UPDATE_PARTITION_PATH])
    if name == "INMEMORY":
        return Index(name, False, Pruning(), remembers=True)
    if name == "BUCKET":
        return _bucket_index(options)
    if name == "HBASE":
        moves = options[o.HBASE_UPDATE_PARTITION_PATH]
        return Index(name, True, Pruning(), moves=moves, sees_logs=True, entries=hbase_settings(options))
    raise Unsupported(f"{o.INDEX_TYPE.key}={name} is not supported; use SIMPLE, BLOOM, GLOBAL_SIMPLE or GLOBAL_BLOOM")


def _bucket_index(options: Options) -> Index:
    buckets = buckets_of(options)
    if options[o.BUCKET_ENGINE] == "SIMPLE":
        return Index("BUCKET", False, Pruning(), buckets=buckets)
    return Index("BUCKET", False, Pruning(), sees_logs=True, buckets=HashRings(buckets.count, buckets.fields))


def index_in(table: TableState, options: Options) -> Index:
    """The index that the options ask for, with what it keeps in the table."""
    index = index_of(options)
    return replace(index, buckets=load_rings(table, index.buckets)) if isinstance(index.buckets, HashRings) else index


def buckets_in(table: TableState) -> Buckets | HashRings | None:
    """The buckets of a table, as its properties say, or the options that it was opened with; None: it has none."""
    names = {o.RECORD_KEY_FIELD.key: ",".join(table.config.record_key_fields), **table.config.raw, **table.options.raw}
    options = table.options.replace({k: v for k, v in names.items() if k in _BUCKET_KEYS})
    return index_in(table, options).buckets if options[o.INDEX_TYPE] == "BUCKET" else None


_BUCKET_KEYS = (o.RECORD_KEY_FIELD.key, o.INDEX_TYPE.key, o.BUCKET_ENGINE.key, o.BUCKET_COUNT.key, o.BUCKET_HASH_FIELDS.key)

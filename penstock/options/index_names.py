"""The known indexes: the map from the value of `hoodie.index.type` to the class of the index, as `module:class`.

To add an index, write a subclass of `Index` in a module of its own in `penstock/index`, and add one line to `INDEXES`. The option
catalogue accepts the names. `penstock.index` imports a class when an index is made: options are in a layer below indexes.
"""

from __future__ import annotations

from typing import Final

#: Value of `hoodie.index.type` → module and class of the index.
INDEXES: Final = {
    "SIMPLE": "penstock.index.simple:SimpleIndex",
    "GLOBAL_SIMPLE": "penstock.index.simple:SimpleIndex",
    "BLOOM": "penstock.index.bloom:BloomIndex",
    "GLOBAL_BLOOM": "penstock.index.bloom:BloomIndex",
    "BUCKET": "penstock.index.bucket:BucketIndex",
    "INMEMORY": "penstock.index.in_memory:InMemoryIndex",
    "HBASE": "penstock.index.hbase:HBaseIndex",
}

"""Checks that a table has no buckets: clustering must not move a row out of the file group that its key hashes to."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import options as o
from penstock.errors import Unsupported
from penstock.index.previous_index import find_bucket_engine
from penstock.table.state import TableState


def check_no_buckets(table: TableState, file_ids: Iterable[str] = ()) -> None:
    """Raise Unsupported if the table has buckets: clustering would move rows out of the bucket that their key hashes to.

    Args:
        table: the table that is to be clustered.
        file_ids: file ids of the table. `hoodie.properties` of a table that Hudi wrote does not always name the bucket index; the
            form of the file ids shows whether there are buckets.
    """
    named = {table.options[o.INDEX_TYPE].upper(), table.config.raw.get(o.INDEX_TYPE.key, "").upper()}
    if "BUCKET" in named or find_bucket_engine(table, list(file_ids)) is not None:
        raise Unsupported(
            f"{table.base_path} has buckets ({o.INDEX_TYPE.key}=BUCKET): a row belongs into the file group that the hash of its "
            "key chooses, and clustering would move it to another. Leave clustering out; compact a merge-on-read table instead"
        )

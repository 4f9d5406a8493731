"""Whether the rows of a table may be clustered: not where a hash of the key binds a row to its file group."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import options as o
from penstock.errors import Unsupported
from penstock.index.previous_index import find_bucket_engine
from penstock.table import TableState


def check_no_buckets(table: TableState, file_ids: Iterable[str] = ()) -> None:
    """Raise Unsupported if the table has buckets: clustering would move a row out of the bucket of its key.

    Args:
        file_ids: file groups of the table. A table of Hudi does not always say in its properties that it has buckets.
    """
    named = {table.options[o.INDEX_TYPE].upper(), table.config.raw.get(o.INDEX_TYPE.key, "").upper()}
    if "BUCKET" in named or find_bucket_engine(table, list(file_ids)) is not None:
        raise Unsupported(
            f"{table.base_path} has buckets ({o.INDEX_TYPE.key}=BUCKET): a row belongs into the file group that the hash of its "
            "key chooses, and clustering would move it to another. Leave clustering out; compact a merge-on-read table instead"
        )

"""Which index wrote a table so far, and whether another one may go on.

Indexes that read base files find every key, whichever of them wrote it, so they may follow one another. Others may not:

- Buckets are file groups that only a hash tells apart. An index that reads files would put a row where the hash does not lead,
  and the bucket index would not find a row in a file group that is not its bucket. The names of the newest files tell.
- An index with entries does not know rows that another index added. Commits of Penstock name their index (`INDEX_FIGURES`).
- An index that inserts into logs puts new rows where an index that reads base files does not look. Write stats tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice
from penstock.index.buckets import Buckets, FixedBuckets, have_bucket_ids
from penstock.index.consistent_hashing import HashRings, has_rings
from penstock.table import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata

#: The key of a commit's extra metadata for what its index did, as JSON. `"index"` is the name of the index.
INDEX_FIGURES = "penstock.index"


def check_same_buckets(table: TableState, buckets: Buckets | None, setting: str) -> None:
    """Raise OptionError if the table has buckets of another kind than an index, or none although the index has some.

    Args:
        buckets: those of the index; None if it has none.
        setting: the options that choose the index, for the message.
    """
    file_ids = _newest_file_ids(table)
    if not file_ids:
        return
    engine = find_bucket_engine(table, file_ids)
    if engine == (buckets.engine if buckets else None):
        return
    if engine:
        raise OptionError(
            f"{table.base_path} was written with {o.INDEX_TYPE.key}=BUCKET and {o.BUCKET_ENGINE.key}={engine} (as "
            f"{file_ids[0]}), and {setting} would make duplicates; set both as they were, with the table's "
            f"{o.BUCKET_COUNT.key} and {o.BUCKET_HASH_FIELDS.key}"
        )
    raise OptionError(
        f"{table.base_path} was written without buckets (file group {file_ids[0]}), and {setting} would make duplicates; leave "
        "the option out, or write the rows to a new table"
    )


def find_bucket_engine(table: TableState, file_ids: Sequence[str]) -> str | None:
    """Return the value of `hoodie.index.bucket.engine` that a table was written with; None if it has no buckets.

    Args:
        file_ids: some file groups of the table. A table of Hudi does not always say in its properties that it has buckets.
    """
    if has_rings(table):
        return HashRings.engine
    if file_ids and have_bucket_ids(file_ids):
        return FixedBuckets.engine
    return None


def _newest_file_ids(table: TableState) -> list[str]:
    """Return the file groups of the newest commit that wrote any."""
    for instant in reversed(table.timeline.writes):
        stats = read_metadata(table.storage, table.base_path, instant).stats
        file_ids = [stat.file_id for stat in stats if stat.file_id]
        if file_ids:
            return file_ids
    return []


def find_rows_of_other_index(table: TableState, index: str) -> tuple[str, str] | None:
    """Return the time and index of the newest write that added rows with another index; None if this index wrote since.

    A write that does not name its index, as one of Hudi, is passed over.
    """
    for instant in reversed(table.timeline.writes):
        metadata = read_metadata(table.storage, table.base_path, instant)
        name = json.loads(metadata.extra.get(INDEX_FIGURES, "{}")).get("index")
        if name == index:
            return None
        if name is not None and any(stat.num_inserts for stat in metadata.stats):
            return instant.time, name
    return None


def check_keys_are_in_base_files(table: TableState, slices: Mapping[str, Sequence[FileSlice]], setting: str) -> None:
    """Raise OptionError if a file slice has rows in log files only: an index that reads base files would write them twice.

    Args:
        slices: by partition path, as far as the index looks for keys.
        setting: the options that choose the index, for the message.
    """
    slices_with_logs: list[FileSlice] = []
    for slices_of_partition in slices.values():
        slices_with_logs += [file_slice for file_slice in slices_of_partition if file_slice.log_files]
    if not slices_with_logs:
        return
    oldest = min(min(log.base_instant for log in file_slice.log_files) for file_slice in slices_with_logs)
    logs_with_inserts = list_logs_with_inserts(table, since=oldest)
    for file_slice in slices_with_logs:
        if file_slice.base_file is None or any(log.name in logs_with_inserts for log in file_slice.log_files):
            raise OptionError(
                f"file group {file_slice.file_id} of partition {file_slice.partition_path or '(none)'} of {table.base_path} has "
                f"rows in log files alone, which another index has put there; {setting} does not find them there and would write "
                "them twice. Compact the table first (Table.compact), or use the index that it was written with"
            )


def list_logs_with_inserts(table: TableState, since: str) -> set[str]:
    """Return the names of log files that writes put new rows into, at or after an instant."""
    names: set[str] = set()
    for instant in table.timeline.writes:
        if instant.time < since or instant.action is not Action.DELTA_COMMIT:
            continue
        # A write that was archived since the timeline was loaded had its logs compacted first.
        with suppress(FileNotFoundError):
            stats = read_metadata(table.storage, table.base_path, instant).stats
            names |= {(stat.path or "").rpartition("/")[2] for stat in stats if stat.num_inserts and stat.log}
    return names

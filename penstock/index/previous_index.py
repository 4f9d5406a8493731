"""Checks which index wrote a table so far, and whether another index may write to it.

Indexes that read base files (simple, bloom) find every key in them, so they may be exchanged for one another. Other changes are
refused:

- Bucket index to or from another index: the bucket index finds a row only in the file group that its key hashes to, and other
  indexes would write the row to another one. Detected by the file ids of the newest commit.
- To an index with entries: it has no entries for rows that another index added. Detected by the index name that Penstock stores
  in its commits (`INDEX_FIGURES`).
- From an index that inserts into log files to one that reads base files: the latter does not find rows in log files. Detected by
  the write stats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice
from penstock.index.bucket_hash import Buckets, FixedBuckets, have_bucket_ids
from penstock.index.consistent_hashing import HashRings, has_rings
from penstock.table.state import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata, read_stats

#: Key in the extra metadata of a commit: figures of its index as JSON. The field `"index"` is the name of the index.
INDEX_FIGURES = "penstock.index"


def check_same_buckets(table: TableState, buckets: Buckets | None, setting: str) -> None:
    """Raise OptionError if the table was written with another kind of buckets: fixed buckets, hash rings or no buckets.

    Args:
        buckets: the buckets of the index that is about to write; None if it has none.
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
    """Return the value of `hoodie.index.bucket.engine` with which the table was written; None if the table has no buckets.

    Args:
        file_ids: file ids of the table. The properties of a table that Hudi wrote do not always say that it has buckets; the form
            of its file ids does.
    """
    if has_rings(table):
        return HashRings.engine
    if file_ids and have_bucket_ids(file_ids):
        return FixedBuckets.engine
    return None


def _newest_file_ids(table: TableState) -> list[str]:
    """Return the file ids in the newest commit that wrote any file; empty if the table has no such commit."""
    for instant in reversed(table.timeline.writes):
        stats = read_stats(table.storage, table.base_path, instant, ["fileId"], is_final=table.is_final(instant))
        file_ids = [file_id for (file_id,) in stats if file_id]
        if file_ids:
            return file_ids
    return []


def find_rows_of_other_index(table: TableState, index: str) -> tuple[str, str] | None:
    """Return (instant time, index name) of the newest write that added rows with another index than `index`.

    Return None if no write did, or if a later write used `index`. Writes that do not name their index, as those of Hudi, are
    ignored.

    Args:
        index: the name of the index, as in `hoodie.index.type`.
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
    """Raise OptionError if a file slice has rows that are only in log files.

    An index that reads base files would not find these rows and would write them twice.

    Args:
        slices: the file slices that may hold incoming keys, by partition path.
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
    """Return the names of the log files into which writes at or after the instant time `since` inserted new rows."""
    names: set[str] = set()
    for instant in table.timeline.writes:
        if instant.time < since or instant.action is not Action.DELTA_COMMIT:
            continue
        # The write was archived after the timeline was loaded. Then its log files were compacted before.
        with suppress(FileNotFoundError):
            stats = read_metadata(table.storage, table.base_path, instant).stats
            names |= {(stat.path or "").rpartition("/")[2] for stat in stats if stat.num_inserts and stat.log}
    return names

"""Whether a table may be written with another index than before.

The indexes that look into files find every key, whichever of them wrote it; they may follow one another. Buckets are file groups
that only a hash tells apart: an index that looks into files would put rows where the hash does not look for them, and the other
way round. A table that Penstock made with buckets says so in its properties; of others the newest files tell. An index with
entries of its own knows nothing of rows that another one added; commits of ours say by which index they were written. One that
sees logs puts new rows there, where the others do not look; write stats tell.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from penstock import options as o
from penstock.errors import OptionError
from penstock.index.bucket import looks_bucketed
from penstock.index.consistent_hashing import has_rings
from penstock.options import Options
from penstock.table import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata
from penstock.write.locate.task_plan import INDEX_FIGURES


def check_index(table: TableState, options: Options) -> None:
    """Refuse an index that would not find the rows of the table.

    Raises:
        OptionError: the table has buckets and the index looks into files, or the other way round.
    """
    ids = _newest_file_ids(table)
    if not ids:
        return
    asks, has = _asked(options), _engine(table, ids)
    if asks == has:
        return
    if has:
        raise OptionError(
            f"{table.base_path} was written with {o.INDEX_TYPE.key}=BUCKET and {o.BUCKET_ENGINE.key}={has} (as {ids[0]}), "
            f"and {_said(options)} would make duplicates; set both as they were, with the table's {o.BUCKET_COUNT.key} and "
            f"{o.BUCKET_HASH_FIELDS.key}"
        )
    raise OptionError(
        f"{table.base_path} was written without buckets (file group {ids[0]}), and {_said(options)} would make duplicates; leave "
        "the option out, or write the rows to a new table"
    )


def added_by_another(table: TableState, index: str) -> tuple[str, str] | None:
    """The time of the newest write that added rows by another index, and its name; None if this one wrote since."""
    for instant in reversed(table.timeline.writes):
        metadata = read_metadata(table.storage, table.base_path, instant)
        name = json.loads(metadata.extra.get(INDEX_FIGURES, "{}")).get("index")
        if name == index:
            return None
        if name is not None and any(stat.num_inserts for stat in metadata.stats):
            return instant.time, name
    return None


def logs_with_new_rows(table: TableState, since: str) -> set[str]:
    """The names of log files that writes after an instant put new rows into, as an index does that sees logs."""
    found: set[str] = set()
    for instant in table.timeline.writes:
        if instant.time >= since and instant.action is Action.DELTA_COMMIT:
            with suppress(FileNotFoundError):  # archived just now, after its logs were compacted
                stats = read_metadata(table.storage, table.base_path, instant).stats
                found |= {(stat.path or "").rpartition("/")[2] for stat in stats if stat.num_inserts and stat.log}
    return found


def _said(options: Options) -> str:
    engine = f" with {o.BUCKET_ENGINE.key}={options[o.BUCKET_ENGINE]}" if options[o.INDEX_TYPE] == "BUCKET" else ""
    return f"{o.INDEX_TYPE.key}={options[o.INDEX_TYPE]}{engine}"


def _asked(options: Options) -> str | None:
    """The kind of buckets that the options ask for."""
    return options[o.BUCKET_ENGINE] if options[o.INDEX_TYPE] == "BUCKET" else None


def _engine(table: TableState, file_ids: Sequence[str]) -> str | None:
    """The kind of buckets that a table has."""
    if has_rings(table):
        return "CONSISTENT_HASHING"
    return "SIMPLE" if looks_bucketed(file_ids) else None


def _newest_file_ids(table: TableState) -> list[str]:
    """File groups of the newest commit that wrote any."""
    for instant in reversed(table.timeline.writes):
        found = [s.file_id for s in read_metadata(table.storage, table.base_path, instant).stats if s.file_id]
        if found:
            return found
    return []

"""Archiving instants: their content goes to one new archive file, then their files go from the timeline.

The archive file is whole before the first instant is removed. Files of pending states go first, and completed ones from the
oldest on, so that at no moment an instant looks unfinished or the timeline has a hole. A run that died is done again: what
the newest archive file holds already is not written twice.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from penstock import clock
from penstock import options as o
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import AlreadyExists, CorruptFile, StorageError, WriteConflict
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.progress import Stages
from penstock.services.archive.eligible import archivable, states_of
from penstock.services.archive.entries import archived_entry
from penstock.services.archive.merge_files import finish_merge, merge_small_files
from penstock.spread.run import run_on_driver
from penstock.storage import FileInfo, join
from penstock.table import TableState
from penstock.timeline.archive import (
    Entry,
    archive_files,
    archive_path,
    entry_key,
    entry_keys,
    next_archive_name,
    read_entries,
    write_entries,
)
from penstock.timeline.instant import Action, Instant, State, parse_instant
from penstock.timeline.store import FOLDER, read_metadata

_ATTEMPTS = 10


@dataclass(frozen=True)
class Archived:
    """What left the timeline."""

    #: The file that was written; None where an earlier run, which died, had written all of it.
    file: str | None
    instants: tuple[Instant, ...]


def archive(table: TableState, stages: Stages | None = None) -> Archived | None:
    """Archive what may go; None if nothing may. The table's timeline was loaded just now.

    Raises:
        CorruptFile: an instant's file, or the newest archive file, cannot be read; nothing was removed.
        WriteConflict: the table is being restored.
    """
    instants = choose(table)
    merges = table.options[o.ARCHIVE_MERGE]
    if instants or merges:
        finish_merge(table)
    if not instants:
        return None
    with (stages or Stages("", "off")).run("archive", f"archiving {len(instants):,} instants"):
        listed = table.storage.list(join(table.base_path, FOLDER))
        done = _archive(table, {f.name: f for f in listed if not f.is_dir}, instants)
        if merges:
            merge_small_files(table)
    return done


def choose(table: TableState) -> list[Instant]:
    """The instants that may be archived now, oldest first."""
    if any(not i.is_completed for i in table.timeline.of(Action.RESTORE)):
        raise WriteConflict(f"{table.base_path} is being restored; archive its timeline when that is finished")
    now = clock.utc_now() if table.config.timeline_utc else clock.local_now()
    going = archivable(table.timeline, table.options, now, merge_on_read=table.is_merge_on_read)
    listed: dict[str, frozenset[str]] = {}
    held = next((i for i in going if i.action is Action.REPLACE_COMMIT and _has_files(table, i, listed)), None)
    return [i for i in going if held is None or i.time < held.time or i.action in (Action.CLEAN, Action.ROLLBACK)]


def _has_files(table: TableState, instant: Instant, listed: dict[str, frozenset[str]]) -> bool:
    """Whether a file group that a replace commit took out is still there; it would come back without that commit.

    Args:
        listed: file ids of the partitions that were looked at, which this adds to; others may have replaced groups of them too.
    """
    for path, ids in (read_metadata(table.storage, table.base_path, instant).replaced or {}).items():
        if ids and path not in listed:
            listed[path] = _file_ids(table, path)
        if ids and not listed[path].isdisjoint(ids):
            return True
    return False


def _file_ids(table: TableState, path: str) -> frozenset[str]:
    names = (parse_base_name(f.name) or parse_log_name(f.name) for f in table.storage.list(join(table.base_path, path)))
    return frozenset(name.file_id for name in names if name is not None)


def _archive(table: TableState, files: dict[str, FileInfo], instants: Sequence[Instant]) -> Archived:
    table = turn_off_metadata_table(table)
    names = states_of(files, instants)
    entries = [(name, entry) for name in names if (entry := _entry(table, files[name])) is not None]
    whole = {(i.time, i.action.family) for i in map(parse_instant, names) if i} - _unread(names, [n for n, _ in entries])
    written = _write(table, [entry for _, entry in entries if _instant_of(entry) in whole])
    gone = [name for name, entry in entries if _instant_of(entry) in whole]
    _remove(table, gone)
    return Archived(written, tuple(i for i in instants if (i.time, i.action.family) in whole))


def _instant_of(entry: Entry) -> tuple[str, Action]:
    return entry["commitTime"], Action(entry["actionType"]).family


def _unread(names: Sequence[str], read: Sequence[str]) -> set[tuple[str, Action]]:
    missing = (parse_instant(name) for name in set(names) - set(read))
    return {(i.time, i.action.family) for i in missing if i}


def _entry(table: TableState, file: FileInfo) -> Entry | None:
    """What a file becomes; None, with a warning, if it cannot be read and the options let archiving go on without it."""
    instant = parse_instant(file.name)
    assert instant is not None
    try:
        content = table.storage.read(file.path)
        return archived_entry(instant, content, file.modified_ms, utc=table.config.timeline_utc)
    except FileNotFoundError:
        return None  # somebody else archives as well
    except CorruptFile as e:
        if table.options[o.FAIL_ON_ARCHIVING]:
            raise CorruptFile(
                f"{e}. Restore it from a copy, or set {o.FAIL_ON_ARCHIVING.key}=false to leave it where it is"
            ) from e
        warnings.warn(f"{file.path} stays on the timeline: {e}", RuntimeWarning, stacklevel=5)
        return None


def _write(table: TableState, entries: Sequence[Entry]) -> str | None:
    """Write what the newest archive file does not hold yet; gives the new file, None where nothing was left to write."""
    storage = table.storage
    folder = table.config.archive_folder
    for _ in range(_ATTEMPTS):
        files = archive_files(storage, table.base_path, folder)
        known = entry_keys(read_entries(storage.read(files[-1].path), files[-1].path)) if files else set()
        new = [entry for entry in entries if entry_key(entry) not in known]
        if not new:
            return None
        path = join(archive_path(table.base_path, folder), next_archive_name(files))
        try:
            storage.write_new(path, write_entries(new, table.options[o.ARCHIVAL_BATCH]))
            return path
        except AlreadyExists:
            continue  # somebody else archives as well
    raise StorageError(f"no free name for an archive file of {table.base_path} was found in {_ATTEMPTS} attempts")


def _remove(table: TableState, names: Sequence[str]) -> None:
    """Files of pending states, many at a time; then completed ones, one by one from the oldest."""
    found = [(parse_instant(name), join(table.base_path, FOLDER, name)) for name in names]
    run_on_driver(table.storage.delete, [path for i, path in found if i and i.state is not State.COMPLETED])
    for instant, path in found:
        if instant and instant.state is State.COMPLETED:
            table.storage.delete(path)

"""Archive instants: write the content of their files to one new archive file, then remove the files from the timeline.

The archive file is complete before the first timeline file is removed. Requested and inflight files are removed first, so that no
archived instant ever looks pending. Then completed files are removed, oldest first, so that the timeline never has a hole (an
archived instant between two that are not). After a crash the next run archives the same instants again, without writing entries
twice that the newest archive file already holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock import clock
from penstock import options as o
from penstock.commit.claims import CLAIMS, find_unfinished
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.modes import is_optimistic
from penstock.commit.table_lock import locked
from penstock.errors import AlreadyExists, CorruptFile, StorageError, WriteConflict
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.progress import Stages, format_count
from penstock.services.archive.eligible import archivable, states_of
from penstock.services.archive.entries import archived_entry
from penstock.services.archive.merge_files import finish_merge, merge_small_files
from penstock.storage import FileInfo, has_whole_files, join
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.archive import (
    Entry,
    archive_path,
    entry_key,
    entry_keys,
    list_archive_files,
    next_archive_name,
    read_entries,
    write_entries,
)
from penstock.timeline.instant import Action, Instant, State, parse_instant
from penstock.timeline.store import FOLDER, read_metadata
from penstock.user_warning import warn_user
from penstock.workers.run_kernels import run_on_driver

#: How many names to try for the new archive file, if concurrent archiving takes each of them.
_ATTEMPTS = 10
#: Identifies an instant in all its states: the time, and the action under which the instant completes.
InstantKey = tuple[str, Action]


@dataclass(frozen=True)
class Archived:
    """The result of one call of `archive`: the instants that were moved to the archive, and the path of the new archive file."""

    #: Path of the new archive file; None if an earlier run that crashed had written all entries already.
    file: str | None
    instants: tuple[Instant, ...]


def archive(table: TableState, stages: Stages | None = None) -> Archived | None:
    """Move old instants from the active timeline to the archive, then merge small archive files.

    The options `hoodie.keep.min.commits` and `hoodie.keep.max.commits` say how many instants stay. Instants that pending plans,
    savepoints or files of replaced file groups need stay too.

    Return None if there is no instant to archive.

    Args:
        table: the table; its timeline must have been loaded just before this call.
        stages: reports progress; None to report none.

    Raises:
        CorruptFile: a timeline file or the newest archive file cannot be read. Then no timeline file was removed.
        WriteConflict: the table is being restored.
    """
    with locked(table):
        if is_optimistic(table):
            table = reload_timeline(table)  # another process may have archived while this one waited for the lock
        return _archive_chosen(table, stages)


def _archive_chosen(table: TableState, stages: Stages | None) -> Archived | None:
    """Archive the old instants, and merge small archive files. The caller holds the table's lock.

    Return None if there is no instant to archive.
    """
    instants = choose_instants(table)
    merges = table.options[o.ARCHIVE_MERGE]
    if instants or merges:
        finish_merge(table)
    if not instants:
        return None
    with (stages or Stages("", "off")).run("archive", f"archiving {format_count(len(instants), 'instant')}"):
        listed = table.storage.list(join(table.base_path, FOLDER))
        archived = _archive(table, {file.name: file for file in listed if not file.is_dir}, instants)
        if merges:
            merge_small_files(table)
    return archived


def choose_instants(table: TableState) -> list[Instant]:
    """Return the instants to archive now, oldest first: those beyond the number that the options keep on the timeline.

    Instants that pending plans and savepoints need stay. A replace commit stays on the timeline while file groups that it
    replaced have files, and all later commits stay with it.

    Raises:
        WriteConflict: the table is being restored.
    """
    if table.timeline.pending_restore is not None:
        raise WriteConflict(f"{table.base_path} is being restored; archive its timeline when that is finished")
    now = clock.utc_now() if table.config.timeline_utc else clock.local_now()
    eligible = archivable(table.timeline, table.options, now, merge_on_read=table.is_merge_on_read)
    has_claims = table.timeline.may_have_folder(CLAIMS.split("/")[0])
    unfinished = min(find_unfinished(table), default=None) if eligible and has_claims else None
    if unfinished is not None:
        # Its process may be about to create the completed file. After archiving, the file would make a hole in the timeline.
        eligible = [instant for instant in eligible if instant.time < unfinished]
    held = _first_replace_with_files(table, eligible)
    if held is None:
        return eligible
    # Commits after the replace commit that has to stay are kept too, or the timeline would get a hole.
    services = (Action.CLEAN, Action.ROLLBACK)
    return [instant for instant in eligible if instant.time < held.time or instant.action in services]


def _first_replace_with_files(table: TableState, instants: Sequence[Instant]) -> Instant | None:
    """Return the first replace commit among `instants` whose replaced file groups still have files; None if there is none.

    That commit must stay: without it on the timeline, queries would read the replaced files again.
    """
    file_ids: dict[str, frozenset[str]] = {}  # by partition path; several replace commits may name one partition
    for instant in instants:
        if instant.action is not Action.REPLACE_COMMIT:
            continue
        replaced = read_metadata(table.storage, table.base_path, instant).replaced or {}
        for path, replaced_ids in replaced.items():
            if not replaced_ids:
                continue
            if path not in file_ids:
                file_ids[path] = _list_file_ids(table, path)
            if not file_ids[path].isdisjoint(replaced_ids):
                return instant
    return None


def _list_file_ids(table: TableState, path: str) -> frozenset[str]:
    """Return the file ids of all data files in the folder of a partition."""
    files = table.storage.list(join(table.base_path, path))
    names = [parse_base_name(file.name) or parse_log_name(file.name) for file in files]
    return frozenset(name.file_id for name in names if name is not None)


def _archive(table: TableState, files: Mapping[str, FileInfo], instants: Sequence[Instant]) -> Archived:
    """Write the archive entries of `instants` to a new archive file and remove their files from the timeline.

    An instant stays on the timeline if one of its files cannot be read. Either all its files are archived or none.

    Args:
        files: all files in the timeline folder, by name.
    """
    table = turn_off_metadata_table(table)
    entries: dict[str, Entry] = {}  # by file name
    unread: set[InstantKey] = set()
    for name in states_of(files, instants):
        instant = parse_instant(name)
        assert instant is not None  # `states_of` returns names of instants
        entry = _make_entry(table, instant, files[name])
        if entry is None:
            unread.add(_instant_key(instant))
        else:
            entries[name] = entry
    # Either all files of an instant are archived or none: drop the entries of instants with an unreadable file.
    entries = {name: entry for name, entry in entries.items() if _entry_instant(entry) not in unread}
    written = _write_entries(table, list(entries.values()))
    _remove_files(table, list(entries))
    archived_keys = {_entry_instant(entry) for entry in entries.values()}
    return Archived(written, tuple(instant for instant in instants if _instant_key(instant) in archived_keys))


def _instant_key(instant: Instant) -> InstantKey:
    """Return (time, action) of an instant. It is the same for the instant's requested, inflight and completed file.

    The action is the one in the name of the completed file: `commit` for a compaction.
    """
    return instant.time, instant.action.family


def _entry_instant(entry: Entry) -> InstantKey:
    """Return (time, action) of the instant whose timeline file an archive entry holds.

    The action is the one in the name of the completed file: `commit` for a compaction.
    """
    return entry["commitTime"], Action(entry["actionType"]).family


def _make_entry(table: TableState, instant: Instant, file: FileInfo) -> Entry | None:
    """Read one timeline file and return its archive entry; None if the file no longer exists.

    If the file is corrupt, raise CorruptFile. If `hoodie.fail.on.timeline.archiving` is false, warn and return None instead.
    """
    try:
        content = table.storage.read(file.path)
        return archived_entry(instant, content, file.modified_ms, utc=table.config.timeline_utc)
    except FileNotFoundError:
        return None  # another process has archived the instant
    except CorruptFile as e:
        if table.options[o.FAIL_ON_ARCHIVING]:
            raise CorruptFile(
                f"{e}. Restore it from a copy, or set {o.FAIL_ON_ARCHIVING.key}=false to leave it where it is"
            ) from e
        warn_user(f"{file.path} stays on the timeline: {e}")
        return None


def _write_entries(table: TableState, entries: Sequence[Entry]) -> str | None:
    """Write a new archive file with the entries that the newest archive file does not hold yet.

    An earlier run that crashed may have written the newest archive file without removing the timeline files.

    Returns:
        The path of the new file; None if the newest archive file holds all entries.
    """
    storage = table.storage
    folder = table.config.archive_folder
    for _ in range(_ATTEMPTS):
        files = list_archive_files(storage, table.base_path, folder)
        known = entry_keys(read_entries(storage.read(files[-1].path), files[-1].path)) if files else set()
        new = [entry for entry in entries if entry_key(entry) not in known]
        if not new:
            return None
        path = join(archive_path(table.base_path, folder), next_archive_name(files))
        try:
            storage.write_new(path, write_entries(new, table.options[o.ARCHIVAL_BATCH]))
            return path
        except AlreadyExists:
            continue  # another process archives too
    raise StorageError(f"no free name for an archive file of {table.base_path} was found in {_ATTEMPTS} attempts")


def _remove_files(table: TableState, names: Sequence[str]) -> None:
    """Remove files from the timeline: requested and inflight files concurrently, then completed files one by one, oldest first.

    In this order no archived instant ever looks pending, and the timeline never has a hole: an archived commit between two that
    are not archived.

    Args:
        names: names of the files, oldest instant first.
    """
    pending: list[str] = []
    completed: list[str] = []
    for name in names:
        instant = parse_instant(name)
        is_completed = instant is not None and instant.state is State.COMPLETED
        (completed if is_completed else pending).append(join(table.base_path, FOLDER, name))
    if has_whole_files(table.storage):
        table.storage.delete_files(pending)
    else:
        run_on_driver(table.storage.delete, pending)
    for path in completed:
        table.storage.delete_files([path])

"""Savepoints: a commit whose files stay, so that the table can be restored to it.

    <commit>.savepoint.inflight → <commit>.savepoint, which names the files of every slice that the commit saw

Cleaning keeps these files, archiving stops at the commit, and the commit cannot be rolled back. Where cleaning has taken
files of a commit already, or is about to, there is no savepoint. A clean may be planned at the same moment: whoever finds the
other's file on the timeline steps back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from penstock import clock
from penstock.catalog.listing import visibility, walk_partitions
from penstock.catalog.savepoints import finished_restores, savepoint_times
from penstock.errors import AlreadyExists, CorruptFile, OptionError, WriteConflict
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.filegroup.view import group_files, latest_merged_slices
from penstock.storage import join
from penstock.table import TableState, reload_timeline
from penstock.timeline.archive import load_archive
from penstock.timeline.clean_file import CleanPlan, CleanResult, read_clean_plan, read_clean_result
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.savepoint_file import Savepoint, write_savepoint
from penstock.timeline.store import instant_path, load_timeline, transition

Files = Mapping[str, tuple[str, ...]]


def create_savepoint(table: TableState, time: str | None = None, *, user: str = "", comment: str = "") -> Savepoint:
    """Make a savepoint of a commit, by default of the newest.

    Raises:
        OptionError: there is no such commit, it has a savepoint, or files of it were cleaned.
        WriteConflict: a clean that is about to delete files of it was planned meanwhile, or the table is being restored.
        CorruptFile: a clean cannot be read, so that nobody knows what it took.
    """
    table = reload_timeline(table)
    time = _checked(table, time)
    files = _files_at(table, time)
    cleans = table.timeline.of(Action.CLEAN)
    _check_not_cleaned(table, time, files, cleans)
    savepoint = Savepoint(time, files, user, comment, clock.now_ms())
    inflight = Instant(time, Action.SAVEPOINT, State.INFLIGHT)
    with suppress(AlreadyExists):  # left by one that died
        table.storage.write_new(instant_path(table.base_path, inflight), b"")
    content = write_savepoint(savepoint)
    try:
        transition(table.storage, table.base_path, inflight, State.COMPLETED, content)
    except AlreadyExists as e:  # it is ours if the storage repeated a call whose answer was lost
        if table.storage.read(instant_path(table.base_path, inflight.at(State.COMPLETED))) != content:
            raise _is_there(table, time) from e
    _step_back_for_cleans(table, savepoint, cleans)
    return savepoint


def delete_savepoint(table: TableState, time: str) -> None:
    """Let go of the files that a savepoint holds.

    Raises:
        OptionError: there is no such savepoint.
    """
    table = reload_timeline(table)
    if not any(i.time == time for i in table.timeline.of(Action.SAVEPOINT)):
        raise OptionError(f"there is no savepoint of {time} in {table.base_path}; it has {_listed(savepoint_times(table))}")
    _remove(table, time)


def _remove(table: TableState, time: str) -> None:
    for state in (State.COMPLETED, State.INFLIGHT):
        table.storage.delete(instant_path(table.base_path, Instant(time, Action.SAVEPOINT, state)))


def _checked(table: TableState, time: str | None) -> str:
    """The commit that is meant. Raises OptionError."""
    if any(not i.is_completed for i in table.timeline.of(Action.RESTORE)):
        raise WriteConflict(f"{table.base_path} is being restored; finish that with restore(), then make the savepoint")
    newest = table.timeline.last_write
    if newest is None:
        raise OptionError(f"{table.base_path} has no commit that a savepoint could be made of; write to it first")
    time = time or newest.time
    if time in savepoint_times(table):
        raise _is_there(table, time)
    if time not in table.timeline.completed_times:
        first = table.timeline.writes[0].time
        where = "it was archived" if _is_archived(table, time) else "history() lists the commits"
        raise OptionError(
            f"Could not savepoint non-existing commit {time} of {table.base_path}: {where}. "
            f"Choose one from {first} to {newest.time}"
        )
    return time


def _is_archived(table: TableState, time: str) -> bool:
    entries = load_archive(table.storage, table.base_path, table.config.archive_folder)
    return any(entry["commitTime"] == time for entry in entries)


def _is_there(table: TableState, time: str) -> OptionError:
    return OptionError(f"commit {time} of {table.base_path} has a savepoint already; delete_savepoint({time!r}) lets go of it")


def _listed(times: Iterable[str]) -> str:
    return ", ".join(times) or "none"


def _files_at(table: TableState, time: str) -> Files:
    """The files of the slices that a reader as of a commit uses, log files with them; every partition is named."""
    seen = visibility(table, time)
    return {
        path: tuple(f.name for one in slices for f in (one.base_file, *one.log_files) if f is not None)
        for path, files in walk_partitions(table.storage, table.base_path)
        for slices in [latest_merged_slices(group_files(path, files), seen)]
    }


def _check_not_cleaned(table: TableState, time: str, files: Files, cleans: Iterable[Instant]) -> None:
    """Refuse a commit that cannot be read in full any more, or soon not."""
    for instant in cleans:
        clean = _clean(table, instant)
        earliest = clean.earliest if isinstance(clean, CleanResult) else clean.earliest.time if clean.earliest else ""
        if earliest and time < earliest:
            raise OptionError(
                f"Could not savepoint commit {time} as this is beyond the lookup window {earliest}: cleaning took files of it. "
                f"Choose {earliest} or a later commit, and raise hoodie.cleaner.commits.retained to keep more of them"
            )
    if lost := _first_lost(table, time, files, cleans):
        raise OptionError(
            f"Could not savepoint commit {time}: {lost}, which that commit needs. Choose a later commit, and raise "
            "hoodie.cleaner.fileversions.retained to keep more versions"
        )


def lost_since(table: TableState, time: str) -> str | None:
    """Which clean took a file that a reader as of a commit needs; None if all of them are there."""
    return _first_lost(table, time, _files_at(table, time), table.timeline.of(Action.CLEAN))


def _first_lost(table: TableState, time: str, files: Files, cleans: Iterable[Instant]) -> str | None:
    """Which file a clean took that the commit needs. A file group without any file left was replaced, be it by a commit that is
    archived by now, and so was not seen any more at a commit on the timeline. What a restore undid nobody needs."""
    seen = visibility(table, time)
    undone = finished_restores(table)
    there: dict[str, set[str]] = {}
    for instant in cleans:
        for path, file_id, name in _taken_from(_deleted(_clean(table, instant)), files, time):
            if any(commit < _slice_of(name)[1] < restored for commit, restored in undone):
                continue
            if path not in there:
                there[path] = {_slice_of(f.name)[0] for f in table.storage.list(join(table.base_path, path))}
            if seen.sees_group(path, file_id) and (file_id in there[path] or (path, file_id) in seen.replaced):
                return f"clean {instant.time} took file {name} of partition {path!r}"
    return None


def _clean(table: TableState, instant: Instant) -> CleanResult | CleanPlan:
    path = instant_path(table.base_path, instant)
    try:
        if instant.is_completed:
            return read_clean_result(table.storage.read(path), path)
        path = instant_path(table.base_path, instant.at(State.REQUESTED))
        return read_clean_plan(table.storage.read(path), path)
    except FileNotFoundError:
        return CleanPlan("")  # finished, or given up, since the timeline was looked at
    except CorruptFile as e:
        raise CorruptFile(f"{e}. Run clean() first, or restore the file from a copy: it may have taken what is needed") from e


def _deleted(clean: CleanResult | CleanPlan) -> Files:
    return clean.files if isinstance(clean, CleanPlan) else {path: one.deleted for path, one in clean.partitions.items()}


def _taken_from(deleted: Files, files: Files, time: str) -> Iterable[tuple[str, str, str]]:
    """Deleted files that are not older than what a commit would be read from: partition path, file id and name."""
    for path, gone in deleted.items():
        there: dict[str, str] = {}
        for name in files.get(path, ()):
            file_id, base = _slice_of(name)
            there[file_id] = max(base, there.get(file_id, ""))
        for name in gone:
            file_id, base = _slice_of(name)
            if (file_id and there.get(file_id, "") < base <= time) or name in files.get(path, ()):
                yield path, file_id, name


def _slice_of(name: str) -> tuple[str, str]:
    """File id and base instant of a data file; empty texts for another file."""
    if base := parse_base_name(name):
        return base.file_id, base.instant
    log = parse_log_name(name)
    return (log.file_id, log.base_instant) if log else ("", "")


def _step_back_for_cleans(table: TableState, savepoint: Savepoint, known: Iterable[Instant]) -> None:
    """Take the savepoint back if a clean was planned that did not know of it and deletes what it holds."""
    times = {i.time for i in known}
    new = [i for i in load_timeline(table.storage, table.base_path).of(Action.CLEAN) if i.time not in times]
    for instant in new:
        gone = _deleted(_clean(table, instant))
        if any(set(names) & set(savepoint.files.get(path, ())) for path, names in gone.items()):
            _remove(table, savepoint.instant)
            raise WriteConflict(
                f"clean {instant.time} of {table.base_path} was planned at the same time and deletes files of commit "
                f"{savepoint.instant}; make a savepoint of a later commit"
            )

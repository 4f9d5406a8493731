"""Savepoints: keep the files of a commit, so that the table can be restored to that commit.

    <commit>.savepoint.inflight → <commit>.savepoint, which names the files of every slice that a query as of the commit reads

Cleaning keeps these files, archiving stops at the commit, and the commit cannot be rolled back. No savepoint is made if a clean
has deleted files of the commit, or is planned to. A clean may be planned at the same moment as the savepoint. Therefore both read
the timeline again after they are stored on it, and the one that finds the other is withdrawn. A savepoint and a concurrent
rollback of its commit, or a concurrent restore, find each other in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from penstock import clock
from penstock.commit.claims import has_claims, run_transaction
from penstock.commit.conflicts import check_not_restoring
from penstock.commit.table_lock import locked
from penstock.commit.undone_commits import check_still_there
from penstock.errors import AlreadyExists, CorruptFile, OptionError, WriteConflict
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.storage import join
from penstock.table.latest_slices import group_files, latest_merged_slices
from penstock.table.listing import load_visibility, walk_partitions
from penstock.table.savepoints import list_finished_restores, list_savepoint_times
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.archive import load_archive
from penstock.timeline.clean_file import CleanPlan, CleanResult, read_clean_plan, read_clean_result
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.savepoint_file import Savepoint, write_savepoint
from penstock.timeline.store import instant_path, load_timeline, transition
from penstock.timeline.timeline import Timeline

#: Names of files by partition path.
Files = Mapping[str, tuple[str, ...]]


def create_savepoint(table: TableState, time: str | None = None, *, user: str = "", comment: str = "") -> Savepoint:
    """Create a savepoint of a commit: store the names of the files that a query as of the commit reads. Cleans keep these files.

    Args:
        time: the instant time of the commit; None for the newest commit.
        user: who creates the savepoint.
        comment: a text of the user. Both are stored in the savepoint.

    Raises:
        OptionError: there is no such commit, the commit already has a savepoint, or a clean has deleted files of the commit.
        WriteConflict: a clean that will delete files of the commit was planned concurrently, the commit is being rolled back, or
            the table is being restored.
        CorruptFile: the file of a clean cannot be read, so it is unknown which files that clean deleted.
    """
    table = reload_timeline(table)
    time = _choose_commit(table, time)
    files = _list_files_as_of(table, time)
    cleans = table.timeline.filter(Action.CLEAN)
    _check_not_cleaned(table, time, files, cleans)
    savepoint = Savepoint(time, files, user, comment, clock.now_ms())
    inflight = Instant(time, Action.SAVEPOINT, State.INFLIGHT)
    with suppress(AlreadyExists):  # left by an attempt that crashed
        table.storage.write_new(instant_path(table.base_path, inflight), b"")
    content = write_savepoint(savepoint)
    try:
        transition(table.storage, table.base_path, inflight, State.COMPLETED, content)
    except AlreadyExists as e:
        # If the storage repeated a call whose answer was lost, the existing file is the one that this process wrote.
        if table.storage.read(instant_path(table.base_path, inflight.in_state(State.COMPLETED))) != content:
            raise _has_savepoint(table, time) from e
    _step_back_for_cleans(table, savepoint, cleans)
    _take_turn(table, savepoint)
    return savepoint


def _take_turn(table: TableState, savepoint: Savepoint) -> None:
    """Check that the commit of a new savepoint is not being undone. If it is, delete the savepoint again.

    The check runs as one of the transactions of the table (`commit/claims.py`). A rollback of the commit, or a restore to an
    earlier commit, runs a transaction too. So the later of the two transactions finds the other action on the timeline. On a
    table without claims (files that only writers with optimistic concurrency control create) the check only loads the timeline
    again.

    Raises:
        WriteConflict: the commit was, or is being, rolled back, or the table is being restored.
    """

    def check(timeline: Timeline) -> None:
        """Raise WriteConflict if the savepoint's commit was, or is being, undone, by the timeline as the transaction reads it."""
        check_not_restoring(table, timeline)
        check_still_there(table, table.timeline, timeline)

    try:
        if has_claims(table):
            with locked(table):
                run_transaction(table, check)
        else:
            check(load_timeline(table.storage, table.base_path))
    except BaseException:
        _remove_files(table, savepoint.instant)
        raise


def delete_savepoint(table: TableState, time: str) -> None:
    """Delete the savepoint of the commit at `time`. Cleaning may then delete the files that the savepoint held.

    Raises:
        OptionError: there is no such savepoint.
        WriteConflict: the table is being restored.
    """
    table = reload_timeline(table)
    if not any(savepoint.time == time for savepoint in table.timeline.filter(Action.SAVEPOINT)):
        known = ", ".join(list_savepoint_times(table)) or "none"
        raise OptionError(f"there is no savepoint of {time} in {table.base_path}; it has {known}")
    check_not_restoring(table, table.timeline)
    _remove_files(table, time)


def _remove_files(table: TableState, time: str) -> None:
    """Remove the timeline files of a savepoint, which has the same time as its commit: `time`."""
    # The completed file first: a crash after it leaves an inflight savepoint, which holds no files.
    for state in (State.COMPLETED, State.INFLIGHT):
        table.storage.delete(instant_path(table.base_path, Instant(time, Action.SAVEPOINT, state)))


def _choose_commit(table: TableState, time: str | None) -> str:
    """Return the instant time of the commit for a new savepoint: `time` if given, otherwise that of the newest commit.

    Args:
        time: the instant time that the caller named; None: the newest commit.

    Raises:
        OptionError: there is no such commit, or the commit already has a savepoint.
        WriteConflict: the table is being restored.
    """
    if table.timeline.pending_restore is not None:
        raise WriteConflict(f"{table.base_path} is being restored; finish that with restore(), then make the savepoint")
    newest = table.timeline.last_write
    if newest is None:
        raise OptionError(f"{table.base_path} has no commit that a savepoint could be made of; write to it first")
    time = time or newest.time
    if time in list_savepoint_times(table):
        raise _has_savepoint(table, time)
    if time not in table.timeline.completed_times:
        first = table.timeline.writes[0].time
        where = "it was archived" if _is_archived(table, time) else "history() lists the commits"
        raise OptionError(
            f"Could not savepoint non-existing commit {time} of {table.base_path}: {where}. "
            f"Choose one from {first} to {newest.time}"
        )
    return time


def _is_archived(table: TableState, time: str) -> bool:
    """Whether the archived timeline holds an instant with this instant time."""
    entries = load_archive(table.storage, table.base_path, table.config.archive_folder)
    return any(entry["commitTime"] == time for entry in entries)


def _has_savepoint(table: TableState, time: str) -> OptionError:
    """Return the OptionError about a commit that already has a savepoint."""
    return OptionError(f"commit {time} of {table.base_path} has a savepoint already; delete_savepoint({time!r}) lets go of it")


def _list_files_as_of(table: TableState, time: str) -> Files:
    """Return the names of the base and log files that a query as of the commit at `time` reads, by partition path.

    Partitions without such files are included, with no names.
    """
    seen = load_visibility(table, time)
    files: dict[str, tuple[str, ...]] = {}
    for path, listed in walk_partitions(table.storage, table.base_path):
        names: list[str] = []
        for file_slice in latest_merged_slices(group_files(path, listed), seen):
            if file_slice.base_file is not None:
                names.append(file_slice.base_file.name)
            names += (log.name for log in file_slice.log_files)
        files[path] = tuple(names)
    return files


def _check_not_cleaned(table: TableState, time: str, files: Files, cleans: Iterable[Instant]) -> None:
    """Raise OptionError if a completed clean has deleted files of the commit at `time`, or a pending clean will.

    Args:
        files: the files on storage that a query as of the commit reads.
        cleans: the completed and pending cleans on the timeline.
    """
    for instant in cleans:
        earliest = _earliest_kept(_read_clean(table, instant))
        if earliest and time < earliest:
            raise OptionError(
                f"Could not savepoint commit {time} as this is beyond the lookup window {earliest}: cleaning took files of it. "
                f"Choose {earliest} or a later commit, and raise hoodie.cleaner.commits.retained to keep more of them"
            )
    lost = _find_lost_file(table, time, files, cleans)
    if lost is not None:
        raise OptionError(
            f"Could not savepoint commit {time}: {lost}, which that commit needs. Choose a later commit, and raise "
            "hoodie.cleaner.fileversions.retained to keep more versions"
        )


def _earliest_kept(clean: CleanResult | CleanPlan) -> str:
    """Return the instant time of the earliest commit that a clean keeps readable; "" if the clean names none."""
    if isinstance(clean, CleanResult):
        return clean.earliest
    return clean.earliest.time if clean.earliest else ""


def find_lost_file(table: TableState, time: str) -> str | None:
    """Return a text that names a file needed by a query as of the commit at `time`, and the clean that deleted the file.

    Return None if no clean deleted a needed file. Used before a rollback, after which the table is that of the commit at `time`.
    """
    return _find_lost_file(table, time, _list_files_as_of(table, time), table.timeline.filter(Action.CLEAN))


def _find_lost_file(table: TableState, time: str, files: Files, cleans: Iterable[Instant]) -> str | None:
    """Return a text that names a file needed by a query as of the commit at `time`, and the clean that deleted the file.

    Return None if no clean deleted a needed file. Two kinds of deleted files are not needed: files of writes that a restore has
    undone; and files of a file group of which no file is left. This group was replaced, perhaps by a commit that is archived,
    and no query as of a commit on the timeline reads it.

    Args:
        files: the files on storage that a query as of the commit reads.
        cleans: the completed and pending cleans on the timeline.
    """
    seen = load_visibility(table, time)
    restores = list_finished_restores(table)
    present: dict[str, set[str]] = {}  # file ids by partition path
    for instant in cleans:
        deleted = _deleted_by(_read_clean(table, instant))
        for path, file_id, name in _needed_files(deleted, files, time):
            base_instant = _parse_slice(name)[1]
            if any(commit < base_instant < restored_at for commit, restored_at in restores):
                continue
            if path not in present:
                present[path] = {_parse_slice(file.name)[0] for file in table.storage.list(join(table.base_path, path))}
            if seen.sees_group(path, file_id) and (file_id in present[path] or (path, file_id) in seen.replaced):
                return f"clean {instant.time} took file {name} of partition {path!r}"
    return None


def _read_clean(table: TableState, instant: Instant) -> CleanResult | CleanPlan:
    """Read the result of a completed clean, or the plan of a pending clean. Return an empty plan if the file no longer exists."""
    path = instant_path(table.base_path, instant)
    try:
        if instant.is_completed:
            return read_clean_result(table.storage.read(path), path)
        path = instant_path(table.base_path, instant.in_state(State.REQUESTED))
        return read_clean_plan(table.storage.read(path), path)
    except FileNotFoundError:
        return CleanPlan("")  # completed, or given up, since the timeline was loaded
    except CorruptFile as e:
        raise CorruptFile(f"{e}. Run clean() first, or restore the file from a copy: it may have taken what is needed") from e


def _deleted_by(clean: CleanResult | CleanPlan) -> Files:
    """Return the names of the files that a completed clean has deleted or a planned clean will delete, by partition path."""
    if isinstance(clean, CleanPlan):
        return clean.files
    return {path: partition.deleted for path, partition in clean.partitions.items()}


def _needed_files(deleted: Files, files: Files, time: str) -> Iterator[tuple[str, str, str]]:
    """Yield (partition path, file id, file name) of each file that a query as of a commit needs and a clean deletes.

    There are two kinds of these files:

    - A deleted file whose slice is not later than the commit, but newer than the slice of its file group that is left on
      storage: the query should read the deleted slice.
    - A file that is still on storage and that the query reads, if a pending clean will delete it.

    Args:
        deleted: the files that a clean has deleted or will delete.
        files: the files on storage that the query reads.
        time: the instant time of the commit.
    """
    for path, deleted_names in deleted.items():
        present_names = files.get(path, ())
        present: dict[str, str] = {}  # newest base instant by file id
        for name in present_names:
            file_id, base_instant = _parse_slice(name)
            present[file_id] = max(base_instant, present.get(file_id, ""))
        for name in deleted_names:
            file_id, base_instant = _parse_slice(name)
            is_newer = bool(file_id) and present.get(file_id, "") < base_instant <= time
            if is_newer or name in present_names:
                yield path, file_id, name


def _parse_slice(name: str) -> tuple[str, str]:
    """Return the file id and base instant in the name of a data file; two empty strings for the name of any other file."""
    base = parse_base_name(name)
    if base is not None:
        return base.file_id, base.instant
    log = parse_log_name(name)
    if log is not None:
        return log.file_id, log.base_instant
    return "", ""


def _step_back_for_cleans(table: TableState, savepoint: Savepoint, known: Iterable[Instant]) -> None:
    """Delete a new savepoint and raise WriteConflict, if a clean that deletes files of the savepoint was planned concurrently.

    Args:
        known: the cleans that were on the timeline before the savepoint was stored. These were already checked.
    """
    known_times = {instant.time for instant in known}
    for instant in load_timeline(table.storage, table.base_path).filter(Action.CLEAN):
        if instant.time in known_times:
            continue
        deleted = _deleted_by(_read_clean(table, instant))
        if any(set(names) & set(savepoint.files.get(path, ())) for path, names in deleted.items()):
            _remove_files(table, savepoint.instant)
            raise WriteConflict(
                f"clean {instant.time} of {table.base_path} was planned at the same time and deletes files of commit "
                f"{savepoint.instant}; make a savepoint of a later commit"
            )

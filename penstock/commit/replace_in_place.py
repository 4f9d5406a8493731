"""Save mode `overwrite` on a storage that cannot rename, such as S3: one file decides, and everything after it can be repeated.

    1. the new table is written and committed in `<table>/.hoodie/.temp/overwrite-<id>`, as on other storages
    2. an instant is requested in the old table, with the heartbeat of a single writer, so that no other writer begins
    3. the note `.hoodie/.overwrite/overwrite-<id>.json` is created: it lists the files of the new table and those of the old one.
       The overwrite is decided
    4. the data files of the new table are copied to their places: readers of the old timeline do not see them
    5. the files of the old timeline are deleted, then those of the old data
    6. the other files of the new table's `.hoodie` are copied: `hoodie.properties` and the completed commit come last
    7. the note is deleted, then the folder of the new table

Before step 3 the old table is there and nothing of it was touched. From step 3 on the new table is the table. Every process that
opens the path finds the note (`finish_in_place`). It waits while the process that replaces the table is alive, by its heartbeat,
and otherwise does steps 4 to 7 itself. `hoodie.properties` exists at all times, so the path is always that of a table.

Two processes may do steps 4 to 7 at once, and one of them may be slow. So each looks whether the note is still there before each
step, and only deletes files that the note names, and instants that were on the timeline while the note was there. Names of data
files and instants are never used twice: a request that takes effect late deletes nothing that a later write created. Files of
other names, such as metafiles of partitions, are deleted by a request that follows at once on a look at the note.

Before a process deletes the new table of a writer that it takes for dead, it creates the note itself, without a content
(`give_up`). A writer that was only slow cannot decide then.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from penstock import clock
from penstock.commit.heartbeat import HEARTBEATS, Heartbeat, is_alive
from penstock.commit.sole_writer import without_other_writers
from penstock.errors import AlreadyExists, CommitUnknown, CorruptFile, StorageError, WriteConflict
from penstock.filegroup.markers import TEMP
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.options import Options
from penstock.storage import Storage, copy_files, join
from penstock.table.config import PROPERTIES, TableConfig
from penstock.table.state import TableState
from penstock.timeline.instant import parse_instant
from penstock.timeline.overwrite_note import OVERWRITE, OVERWRITES, OverwriteNote, find_note, give_up, note_path
from penstock.timeline.store import FOLDER, read_metadata
from penstock.timeline.timeline import Timeline

#: How long a process waits between two looks at the note of a living one.
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
#: Files whose names later writes may use again, deleted between two looks at the note: one request.
_REUSED_AT_ONCE = 1000


def replace_in_place(table: TableState, new_table: str, instant: str) -> None:
    """Replace the files of a table by those of the table at `new_table`, a folder inside it.

    Args:
        table: the old table. Its timeline is not used.
        new_table: the path of the new table, which is complete.
        instant: the instant time of the commit that wrote the new table.

    Raises:
        StorageError: the storage failed before anything was replaced. The old table is as it was.
        WriteConflict: another writer is alive, or took this one for dead. The old table is as it was.
        CommitUnknown: the storage failed later. If the new table was to replace the old one by then, the next process that opens
            the path finishes the work.
    """
    storage = table.storage
    base_path = table.base_path
    with without_other_writers(table) as heartbeat:
        name = new_table.rpartition("/")[2]
        note = _make_note(table, name, heartbeat.name if heartbeat else name, instant)
        if heartbeat:
            heartbeat.start()
        _decide(storage, base_path, note)
        try:
            _roll_forward(storage, base_path, note)
        except (StorageError, CorruptFile) as e:
            raise CommitUnknown(
                f"overwriting {base_path} is decided, but not finished ({e}). The new table takes its place when the path is "
                "next opened"
            ) from e
        if heartbeat:
            with suppress(StorageError):
                heartbeat.end()


def _make_note(table: TableState, name: str, heartbeat: str, instant: str) -> OverwriteNote:
    """Return the note of an overwrite: which files the new table and the old table have. The note is not stored yet.

    Args:
        name: the name of the new table's folder.
        heartbeat: the name of this process's heartbeat file.
        instant: the instant time of the commit that wrote the new table.

    Raises:
        WriteConflict: the new table is not complete, because another process took this one for dead and deleted files.
    """
    start = join(table.base_path, "")
    paths = [file.path.removeprefix(start).lstrip("/") for file in table.storage.list_tree(table.base_path)]
    aside = f"{FOLDER}/{TEMP}/{name}/"
    new = {path.removeprefix(aside) for path in paths if path.startswith(aside)}
    new = {path for path in new if not path.startswith((f"{FOLDER}/{TEMP}/", f"{FOLDER}/{HEARTBEATS}/"))}
    if not _is_whole(table, aside, new, instant):
        raise WriteConflict(
            f"another writer took the overwrite of {table.base_path} for dead and deleted what it had written; the old table is "
            "as it was. Run the write again, one writer at a time"
        )
    kept = (f"{FOLDER}/{TEMP}/{OVERWRITE}-", f"{FOLDER}/{HEARTBEATS}/", f"{FOLDER}/{OVERWRITES}/")
    old = [path for path in paths if path not in new and not path.startswith(kept)]
    return OverwriteNote(name, heartbeat, tuple(sorted(new)), tuple(old))


def _is_whole(table: TableState, aside: str, new: set[str], instant: str) -> bool:
    """Whether the new table has its properties, the commit at `instant`, and all files that its commits name.

    Args:
        aside: the folder of the new table, relative to the base path.
        new: the files of the new table, relative to that folder.
    """
    timeline = Timeline.from_names([path.removeprefix(f"{FOLDER}/") for path in new])
    if f"{FOLDER}/{PROPERTIES}" not in new or instant not in timeline.completed_times:
        return False
    try:
        commits = [read_metadata(table.storage, join(table.base_path, aside), write) for write in timeline.writes]
    except (CorruptFile, FileNotFoundError):
        return False
    named: set[str] = set()
    for commit in commits:
        named.update(stat.path for stat in commit.stats if stat.path)
    return named <= new


def _decide(storage: Storage, base_path: str, note: OverwriteNote) -> None:
    """Create the note of an overwrite. From then on the new table counts as the table, whatever becomes of this process.

    Raises:
        StorageError: the note was not created, and will not be.
        WriteConflict: another process took this one for dead, and has prevented the overwrite.
        CommitUnknown: it is not known whether the note exists.
    """
    folder = join(base_path, FOLDER)
    content = note.encode()
    try:
        storage.write_new(note_path(folder, note.new_table), content)
        return
    except AlreadyExists:
        failure = None  # created by this call, whose answer was lost, or by a process that has given the overwrite up
    except (StorageError, CommitUnknown) as e:
        failure = e
    try:
        is_given_up = give_up(storage, folder, note.new_table)
    except (StorageError, CommitUnknown) as e:
        raise CommitUnknown(
            f"overwriting {base_path} failed ({failure or e}), and it is not known whether it was decided. If it was, the new "
            "table takes its place when the path is next opened; otherwise the old table stays"
        ) from e
    if not is_given_up:
        return
    if failure is None:
        raise WriteConflict(
            f"another writer took the overwrite of {base_path} for dead; the old table is as it was. Run the write again, one "
            "writer at a time"
        )
    if storage.stat(join(folder, TEMP, note.new_table, FOLDER, PROPERTIES)) is None:
        raise CommitUnknown(
            f"overwriting {base_path} failed ({failure}), and another process has finished it or taken it back. Look at the "
            "table before you write again"
        ) from failure
    raise StorageError(f"overwriting {base_path} failed, the old table is as it was: {failure}") from failure


def _roll_forward(storage: Storage, base_path: str, note: OverwriteNote) -> None:
    """Finish an overwrite whose note exists: put the files of the new table in place of those of the old one.

    Return without an error if another process finishes the overwrite first.

    Raises:
        StorageError: the storage failed, or a file of the new table is missing.
    """
    try:
        finished = not _do_steps(storage, base_path, note)
    except StorageError:
        if not _is_open(storage, base_path, note):
            return
        raise
    if finished:
        return
    with suppress(StorageError):  # a later write deletes what is left
        storage.delete_tree(join(base_path, FOLDER, TEMP, note.new_table))


def _do_steps(storage: Storage, base_path: str, note: OverwriteNote) -> bool:
    """Copy the files of the new table to their places, delete those of the old table, then delete the note of the overwrite.

    The folder of the new table stays. Return True at the end. Return False, without doing the rest, if the note is gone: another
    process has finished the overwrite.
    """
    in_folder = f"{FOLDER}/"
    data = [path for path in note.new if not path.startswith(in_folder)]
    metadata = [path for path in note.new if path.startswith(in_folder) and not _is_last(path)]
    last = sorted((path for path in note.new if _is_last(path)), key=_order_of_last)
    instants = set(_list_instants(storage, base_path)).difference(note.new)
    unique = [path for path in note.old if path not in instants and _is_unique(path)]
    reused = [path for path in note.old if path not in instants and not _is_unique(path)]

    if not _is_open(storage, base_path, note):
        return False
    _copy(storage, base_path, note, data)
    if not _is_open(storage, base_path, note):
        return False
    _delete(storage, base_path, sorted(instants))
    for start in range(0, len(reused), _REUSED_AT_ONCE):
        if not _is_open(storage, base_path, note):
            return False
        _delete(storage, base_path, reused[start : start + _REUSED_AT_ONCE])
    _delete(storage, base_path, unique)
    if not _is_open(storage, base_path, note):
        return False
    _copy(storage, base_path, note, metadata)
    for path in last:
        _copy(storage, base_path, note, [path])
    storage.delete_files([note_path(join(base_path, FOLDER), note.new_table)])
    return True


def _is_unique(path: str) -> bool:
    """Whether no later write can create a file of the same name: it is an instant or a data file."""
    name = path.rpartition("/")[2]
    if path.startswith(f"{FOLDER}/"):
        return parse_instant(name) is not None
    return parse_base_name(name) is not None or parse_log_name(name) is not None


def _is_last(path: str) -> bool:
    """Whether a file of the new table is copied last: its properties, and the files of its instants."""
    folder, _, name = path.rpartition("/")
    return folder == FOLDER and (name == PROPERTIES or parse_instant(name) is not None)


def _order_of_last(path: str) -> tuple[bool, bool, str]:
    """Return a sort key for the files that are copied last: pending instants, then the properties, then completed instants."""
    name = path.rpartition("/")[2]
    instant = parse_instant(name)
    return (instant is not None and instant.is_completed, name == PROPERTIES, name)


def _list_instants(storage: Storage, base_path: str) -> list[str]:
    """Return the paths of the files of all instants on the timeline, relative to the base path.

    They include an instant that a table service has requested since the files of the old table were listed. When that requested
    file is deleted, the service stops. A service that begins later finds the note of the overwrite.
    """
    names = [entry.name for entry in storage.list(join(base_path, FOLDER)) if not entry.is_dir]
    return [f"{FOLDER}/{name}" for name in names if parse_instant(name) is not None]


def _is_open(storage: Storage, base_path: str, note: OverwriteNote) -> bool:
    """Whether the note of the overwrite still exists. If not, another process has finished the overwrite."""
    return storage.stat(note_path(join(base_path, FOLDER), note.new_table)) is not None


def _copy(storage: Storage, base_path: str, note: OverwriteNote, paths: Iterable[str]) -> None:
    """Copy files from the folder of the new table to the same paths below the base path.

    Args:
        paths: paths relative to the folder of the new table.
    """
    new_table = join(base_path, FOLDER, TEMP, note.new_table)
    copy_files(storage, [(join(new_table, path), join(base_path, path)) for path in paths])


def _delete(storage: Storage, base_path: str, paths: Iterable[str]) -> None:
    """Delete files of the old table.

    Args:
        paths: paths relative to the base path.
    """
    storage.delete_files([join(base_path, path) for path in paths])


def finish_in_place(storage: Storage, base_path: str, options: Options) -> bool:
    """Finish an overwrite of the table whose process is dead. Return whether there was an overwrite.

    While that process is alive, wait. An overwrite counts once its note was created: from then on the new table must replace the
    old one.

    Args:
        options: their `hoodie.client.heartbeat.*` say when a process counts as dead.
    """
    table = TableState(storage, base_path, TableConfig({}), options)
    pause_s = _FIRST_PAUSE_S
    found = False
    while (path := find_note(storage, join(base_path, FOLDER))) is not None:
        found = True
        try:
            note = OverwriteNote.decode(storage.read(path))
        except FileNotFoundError:
            continue
        if not is_alive(table, note.heartbeat):
            _take_over(table, note)
            continue
        clock.sleep_s(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return found


def _take_over(table: TableState, note: OverwriteNote) -> None:
    """Finish the overwrite of a dead process, with a heartbeat in its place, so that other processes wait.

    Args:
        note: the note of the overwrite, which names the files of both tables and the heartbeat file.
    """
    heartbeat = Heartbeat(table)
    try:
        heartbeat.announce_run(note.heartbeat)
        heartbeat.beat()
        heartbeat.start()
        _roll_forward(table.storage, table.base_path, note)
        with suppress(StorageError):
            heartbeat.end()
    finally:
        heartbeat.stop()

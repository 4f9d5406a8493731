"""The timeline on storage: lists the files in `.hoodie`, and creates new ones exclusively.

A commit becomes visible at the moment when `<time>.commit` is created. If several processes try to create the same file, exactly
one succeeds.
"""

from __future__ import annotations

import errno
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from penstock import clock
from penstock.errors import AlreadyExists, CorruptFile, StorageError, TableChanged, WriteConflict
from penstock.storage import Storage, has_whole_files, join
from penstock.timeline.commit_file import CommitMetadata, WriteStat, read_commit, read_commit_schema, read_stat_fields
from penstock.timeline.instant import Action, Instant, State, format_time, next_time
from penstock.timeline.overwrite_note import is_overwritten
from penstock.timeline.timeline import Timeline

FOLDER = ".hoodie"
#: Files of completed writes on object stores that this process keeps, and their bytes at most. Such a file never changes.
_KEPT_FILES = 64
_KEPT_BYTES = 32 * 1024 * 1024
_kept: OrderedDict[tuple[Storage, str], bytes] = OrderedDict()
_kept_lock = threading.Lock()
#: The pauses between attempts to take a new instant: they double, with random deviations. All together are within the budget. An
#: attempt fails if another process took the same or a later time in between, or if the storage says so wrongly.
_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 1.0
_PAUSE_BUDGET_S = 30.0


def load_timeline(storage: Storage, base_path: str) -> Timeline:
    """List the files in `.hoodie` and return the active timeline."""
    files: list[str] = []
    folders: list[str] = []
    for entry in storage.list(join(base_path, FOLDER)):
        names = folders if entry.is_dir else files
        names.append(entry.name)
    return Timeline.from_names(files, folders)


def instant_path(base_path: str, instant: Instant) -> str:
    """Return the path of the instant's file in `.hoodie`, for its state."""
    return join(base_path, FOLDER, instant.file_name)


def request_instant(
    storage: Storage,
    base_path: str,
    action: Action,
    *,
    utc: bool,
    content: bytes = b"",
    after: str | None = None,
    announce: Callable[[str], bool] | None = None,
    check: Callable[[Instant, Timeline], None] | None = None,
    is_plan: bool = False,
    is_latest: bool = True,
    known: Timeline | None = None,
    take_back: Callable[[Instant], bool] | None = None,
) -> Instant:
    """Create the requested file of a new instant that is later than all others; return the instant.

    No other process can take the same instant, because the requested file is created exclusively. But another process may take
    the same time for another action, or a later time, after this call has listed the timeline and before it creates the file.
    Therefore the timeline is listed again. If this instant is not the latest one, its file is deleted and another time is tried.

    Args:
        utc: whether instant times are in UTC; otherwise in the local zone of this process.
        content: the content of the requested file.
        after: a time than which the new instant must be later, as well as later than all times on the timeline; None: no
            further condition.
        announce: is called with each instant time that is about to be tried, before the requested file is created. If it
            returns False, because another writer is trying the same time, a later time is tried.
        check: is called with the new instant and the timeline that was listed after its file was created. If it raises an error,
            the file is deleted again.
        is_plan: whether the content is a plan that any process may run. Then an existing file with the same content counts as
            created by this call: the storage may have repeated the request to create it because the first answer was lost. A plan
            that another process has begun to run stays.
        is_latest: whether the instant must be the latest one. If false, it is enough that no other instant has the same time.
        known: a timeline that was just listed, so that the first attempt need not list it; None: every attempt lists it.
        take_back: is called with a new instant that is not the latest one, to delete its file. If it returns False, others rely
            on the instant already, and it is kept and returned. None: the file is deleted.

    Raises:
        StorageError: no attempt succeeded.
        TableChanged: a new table is about to replace this one (save mode `overwrite`).
    """
    for _ in _attempts(base_path):
        last = (known or load_timeline(storage, base_path)).last_time
        known = None
        latest_known = max(last or "", after or "")
        now = format_time(clock.utc_now() if utc else clock.local_now())
        instant = Instant(next_time(latest_known or None, now), action, State.REQUESTED)
        path = instant_path(base_path, instant)
        if announce and not announce(instant.time):
            after = instant.time
            continue
        is_own = True
        try:
            storage.write_new(path, content)
        except AlreadyExists:
            if not (is_plan and _holds(storage, path, content)):
                continue
            is_own = False  # or it is: then a plan stays that any process may run
        timeline = load_timeline(storage, base_path)
        _check_or_delete(storage, path, partial(_refuse_overwritten, storage, base_path, timeline))
        found = [i for i in timeline.instants if i.time == instant.time and i.action.family is action.family]
        if is_plan and any(i.state is not State.REQUESTED for i in found):
            return instant  # another process runs the plan already
        others = {other.time for other in timeline.instants if other != instant}
        if instant.time not in others and (not is_latest or max(others, default="") < instant.time):
            _check_or_delete(storage, path, check and partial(check, instant, timeline))
            return instant
        if take_back is None:
            if is_own:
                storage.delete(path)
        elif not take_back(instant):
            return instant
    raise AssertionError


def _attempts(base_path: str) -> Iterator[None]:
    """Yield for each attempt to take an instant, with pauses between them. Raise StorageError when the pauses are used up."""
    pause_s = _FIRST_PAUSE_S
    paused_s = 0.0
    while paused_s < _PAUSE_BUDGET_S:
        yield
        this_pause_s = pause_s * (0.5 + clock.random_fraction() / 2)
        clock.sleep_s(this_pause_s)
        paused_s += this_pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    raise StorageError(
        errno.EBUSY,
        f"no instant could be taken, although the attempts paused for {paused_s:.0f} s altogether: by the storage's answers "
        "other writers had created each file first. Run the write again; if no other writer is at work, the storage or a proxy "
        "in front of it answers conditional puts wrongly",
        base_path,
    )


def _refuse_overwritten(storage: Storage, base_path: str, timeline: Timeline) -> None:
    """Raise TableChanged if a new table is about to replace this one (save mode `overwrite`).

    The instants of the old table are deleted then.
    """
    if is_overwritten(storage, join(base_path, FOLDER), timeline):
        raise TableChanged(f"{base_path} is being replaced by mode('overwrite'). Run the write again")


def _check_or_delete(storage: Storage, path: str, check: Callable[[], None] | None) -> None:
    """Call `check`, if it is not None. If it raises an error, delete the requested file at `path`, and raise the error again."""
    try:
        if check is not None:
            check()
    except Exception:
        storage.delete(path)
        raise


def _holds(storage: Storage, path: str, content: bytes) -> bool:
    """Whether the file at `path` exists and its content is `content`."""
    try:
        return storage.read(path) == content
    except FileNotFoundError:
        return False


def transition(storage: Storage, base_path: str, instant: Instant, to: State, content: bytes = b"") -> Instant:
    """Create the file of an instant in its next state `to`, inflight or completed; return the instant in that state.

    Args:
        instant: the instant in its current state.
        content: the content of the new file.

    Raises:
        AlreadyExists: the file exists: another process created it.
        WriteConflict: another writer rolled the instant back and deleted its data files.
    """
    after = instant.in_state(to)
    require_pending(storage, base_path, instant)
    storage.write_new(instant_path(base_path, after), content)
    return after


def require_pending(storage: Storage, base_path: str, instant: Instant) -> None:
    """Raise WriteConflict if the instant's requested file is gone: another writer has rolled the instant back.

    Another writer does so if it considers the writer of the instant dead. A savepoint is not checked, because it has no requested
    file and is never rolled back.
    """
    requested = instant.in_state(State.REQUESTED)
    if instant.action is not Action.SAVEPOINT and storage.stat(instant_path(base_path, requested)) is None:
        raise WriteConflict(
            f"another writer took this write for dead and rolled it back: {requested.file_name} of {base_path} is gone. "
            "Run the write again, one writer at a time"
        )


def _read_instant(storage: Storage, base_path: str, instant: Instant, is_final: bool) -> bytes:
    """Return the content of the file of an instant.

    On an object store, where each read is a request, the content is kept in memory if `is_final` is true.

    Args:
        is_final: whether the file never changes (`TableState.is_final`).
    """
    path = instant_path(base_path, instant)
    if not is_final or not has_whole_files(storage):
        return storage.read(path)
    with _kept_lock:
        content = _kept.get((storage, path))
    if content is None:
        content = storage.read(path)
        keep_instant(storage, path, content)
    return content


def keep_instant(storage: Storage, path: str, content: bytes) -> None:
    """Keep the content of a completed write's file in memory, if the file is on an object store. The oldest contents are dropped.

    Must not be called for the run of a plan: a run that is rolled back runs again under the same instant, so its file may change.

    Args:
        path: the path of the file.
    """
    if not has_whole_files(storage) or len(content) > _KEPT_BYTES:
        return
    with _kept_lock:
        _kept[storage, path] = content
        while len(_kept) > _KEPT_FILES or sum(map(len, _kept.values())) > _KEPT_BYTES:
            _kept.popitem(last=False)


def forget_instants() -> None:
    """Drop the contents of all files of instants that are kept in memory. For tests and measurements."""
    with _kept_lock:
        _kept.clear()


def read_metadata(storage: Storage, base_path: str, instant: Instant) -> CommitMetadata:
    """Read the commit metadata of a completed write. Raises CorruptFile if the metadata cannot be parsed."""
    return read_commit(storage.read(instant_path(base_path, instant)), instant.file_name)


def read_stats(
    storage: Storage, base_path: str, instant: Instant, keys: Sequence[str], *, is_final: bool = False
) -> list[tuple[Any, ...]]:
    """Return a tuple per write stat of a completed write, with the values of the fields `keys`.

    Write stats are not converted to `WriteStat`s, which saves time. Raises CorruptFile if the file is not commit metadata.

    Args:
        keys: the names of the fields as the file spells them. The value is None in a write stat without the field.
        is_final: whether the file never changes (`TableState.is_final`), so that it may be kept in memory.
    """
    return read_stat_fields(_read_instant(storage, base_path, instant, is_final), instant.file_name, keys)


def read_log_stat(storage: Storage, base_path: str, time: str, file_name: str) -> WriteStat | None:
    """Return the write stat that the completed delta commit at `time` recorded for a log file; None if it is not known.

    It is not known if the delta commit is archived, cannot be parsed, or does not name the file.
    """
    try:
        stats = read_metadata(storage, base_path, Instant(time, Action.DELTA_COMMIT, State.COMPLETED)).stats
    except (FileNotFoundError, CorruptFile):
        return None
    return next((stat for stat in stats if stat.path and stat.path.rpartition("/")[2] == file_name), None)


def read_schema(storage: Storage, base_path: str, instant: Instant, *, is_final: bool = False) -> tuple[str, str | None]:
    """Return (operation, Avro schema as JSON) from the file of a completed write; the schema is None if the file has none.

    Write stats are not converted to `WriteStat`s, which saves time. Raises CorruptFile if the file is not commit metadata.

    Args:
        is_final: whether the file never changes (`TableState.is_final`), so that it may be kept in memory.
    """
    return read_commit_schema(_read_instant(storage, base_path, instant, is_final), instant.file_name)

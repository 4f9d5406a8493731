"""The timeline on storage: listing it, and creating its files exclusively.

A commit becomes visible at the moment when `<time>.commit` is created. Of several processes that create one file, one succeeds.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock import clock
from penstock.errors import AlreadyExists, CorruptFile, WriteConflict
from penstock.storage import Storage, join
from penstock.timeline.commit_file import CommitMetadata, read_commit, read_commit_schema
from penstock.timeline.instant import Action, Instant, State, format_time, next_time
from penstock.timeline.timeline import Timeline

FOLDER = ".hoodie"
#: Attempts to take a free instant. Each fails only if another process took a later one in between.
_ATTEMPTS = 1000


def load_timeline(storage: Storage, base_path: str) -> Timeline:
    """Return the current active timeline."""
    return Timeline.from_names(f.name for f in storage.list(join(base_path, FOLDER)) if not f.is_dir)


def instant_path(base_path: str, instant: Instant) -> str:
    """Return the path of an instant's file."""
    return join(base_path, FOLDER, instant.file_name)


def request_instant(
    storage: Storage,
    base_path: str,
    action: Action,
    *,
    utc: bool,
    content: bytes = b"",
    after: str | None = None,
    announce: Callable[[str], None] | None = None,
    is_plan: bool = False,
) -> Instant:
    """Take a new instant, which is later than all others and belongs to this process alone.

    The requested file is created exclusively. But another process may have taken the same time for another action, or a later
    time, after this one listed the timeline. So the timeline is listed again, and a process whose instant is not the last one
    deletes its file and tries again.

    Args:
        utc: whether times are in UTC, not in the zone of this process.
        content: of the requested file.
        after: the instant is later than this time too.
        announce: is called with the time of each attempt before its file exists.
        is_plan: whether the content is a plan that any process may run. Then a file with the same content is taken as the one
            that this call created: the storage may have repeated a call whose answer was lost.

    Raises:
        CorruptFile: no attempt succeeded.
    """
    last = None
    for _ in range(_ATTEMPTS):
        last = load_timeline(storage, base_path).last_time
        latest_known = max(last or "", after or "")
        now = format_time(clock.utc_now() if utc else clock.local_now())
        instant = Instant(next_time(latest_known or None, now), action, State.REQUESTED)
        path = instant_path(base_path, instant)
        if announce:
            announce(instant.time)
        try:
            storage.write_new(path, content)
        except AlreadyExists:
            if not (is_plan and _holds(storage, path, content)):
                continue
        others = [i for i in load_timeline(storage, base_path).instants if i != instant]
        if all(i.time < instant.time for i in others):
            return instant
        storage.delete(path)
        clock.sleep_s(0.001)
    raise CorruptFile(f"no free instant was found in {_ATTEMPTS} attempts; is the clock far behind {last}?")


def _holds(storage: Storage, path: str, content: bytes) -> bool:
    """Whether a file exists and has this content."""
    try:
        return storage.read(path) == content
    except FileNotFoundError:
        return False


def transition(storage: Storage, base_path: str, instant: Instant, to: State, content: bytes = b"") -> Instant:
    """Create the file of an instant's next state; return the instant in that state.

    Raises:
        AlreadyExists: another process did so before.
        WriteConflict: the instant was rolled back, so its data files are gone.
    """
    after = instant.in_state(to)
    require_pending(storage, base_path, instant)
    storage.write_new(instant_path(base_path, after), content)
    return after


def require_pending(storage: Storage, base_path: str, instant: Instant) -> None:
    """Raise WriteConflict if another writer took the writer of the instant for dead and rolled the instant back.

    A savepoint has no requested file, and is not rolled back.
    """
    requested = instant.in_state(State.REQUESTED)
    if instant.action is not Action.SAVEPOINT and storage.stat(instant_path(base_path, requested)) is None:
        raise WriteConflict(
            f"another writer took this write for dead and rolled it back: {requested.file_name} of {base_path} is gone. "
            "Run the write again, one writer at a time"
        )


def read_metadata(storage: Storage, base_path: str, instant: Instant) -> CommitMetadata:
    """Return the content of a write's file. Raise CorruptFile if it cannot be read."""
    return read_commit(storage.read(instant_path(base_path, instant)), instant.file_name)


def read_schema(storage: Storage, base_path: str, instant: Instant) -> tuple[str, str | None]:
    """Return the operation of a write and the schema in its file, without reading write stats. Raise CorruptFile."""
    return read_commit_schema(storage.read(instant_path(base_path, instant)), instant.file_name)

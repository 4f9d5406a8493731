"""The timeline on storage: listing it, and the exclusive creation of its files.

Creating `<time>.commit` is the moment a commit becomes visible; everything here is arranged around that.
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
_ATTEMPTS = 1000


def load_timeline(storage: Storage, base_path: str) -> Timeline:
    """The active timeline as it is now."""
    return Timeline.from_names(f.name for f in storage.list(join(base_path, FOLDER)) if not f.is_dir)


def instant_path(base_path: str, instant: Instant) -> str:
    """Where an instant's file is."""
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
    """Take a new instant: later than every other one, and shared with nobody.

    The requested file is created exclusively. Between our look at the timeline and that, somebody else could have
    taken the same time for another action, or a later one, so the timeline is looked at once more: whoever finds
    itself not to be the last steps back.

    Args:
        announce: told the time of every attempt before the timeline shows it.
        is_plan: whether the content says all that is to be done, so that it does not matter who does it. A file that is there
            with the same content is taken for ours then: the storage may have repeated a call whose answer was lost.
    """
    last = None
    for _ in range(_ATTEMPTS):
        last = load_timeline(storage, base_path).last_time
        known = max(t for t in (last, after, "") if t is not None)
        now = format_time(clock.utc_now() if utc else clock.local_now())
        instant = Instant(next_time(known or None, now), action, State.REQUESTED)
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
    """Whether a file is there, with this content."""
    try:
        return storage.read(path) == content
    except FileNotFoundError:
        return False


def transition(storage: Storage, base_path: str, instant: Instant, to: State, content: bytes = b"") -> Instant:
    """Take an instant to its next state by creating that state's file.

    Raises:
        AlreadyExists: somebody did so before.
        WriteConflict: the instant was rolled back meanwhile, so that its data files are gone.
    """
    after = instant.in_state(to)
    require_pending(storage, base_path, instant)
    storage.write_new(instant_path(base_path, after), content)
    return after


def require_pending(storage: Storage, base_path: str, instant: Instant) -> None:
    """Raises WriteConflict if another writer took the instant for dead and rolled it back."""
    requested = instant.in_state(State.REQUESTED)
    if instant.action is not Action.SAVEPOINT and storage.stat(instant_path(base_path, requested)) is None:
        raise WriteConflict(
            f"another writer took this write for dead and rolled it back: {requested.file_name} of {base_path} is gone. "
            "Run the write again, one writer at a time"
        )


def read_metadata(storage: Storage, base_path: str, instant: Instant) -> CommitMetadata:
    """The content of a write's file. Raises CorruptFile."""
    return read_commit(storage.read(instant_path(base_path, instant)), instant.file_name)


def read_schema(storage: Storage, base_path: str, instant: Instant) -> tuple[str, str | None]:
    """The operation of a write and the schema in its file, without its write stats. Raises CorruptFile."""
    return read_commit_schema(storage.read(instant_path(base_path, instant)), instant.file_name)

"""The timeline on storage: listing it, and the exclusive creation of its files.

Creating `<time>.commit` is the moment a commit becomes visible; everything here is arranged around that.
"""

from __future__ import annotations

from penstock import clock
from penstock.errors import AlreadyExists, CorruptFile
from penstock.storage import Storage, join
from penstock.timeline.contents import CommitMetadata, read_commit
from penstock.timeline.instant import Action, Instant, State, format_time, time_after
from penstock.timeline.timeline import Timeline

FOLDER = ".hoodie"
_ATTEMPTS = 1000


def load_timeline(storage: Storage, base_path: str) -> Timeline:
    """The active timeline as it is now."""
    return Timeline.of_names(f.name for f in storage.list(join(base_path, FOLDER)) if not f.is_dir)


def instant_path(base_path: str, instant: Instant) -> str:
    """Where an instant's file is."""
    return join(base_path, FOLDER, instant.file_name)


def request(
    storage: Storage, base_path: str, action: Action, *, utc: bool, content: bytes = b"", after: str | None = None
) -> Instant:
    """Take a new instant: later than every other one, and shared with nobody.

    The requested file is created exclusively. Another action could still have taken the same time in the same
    moment, so the timeline is looked at once more afterwards; whoever sees the other one steps back.
    """
    for _ in range(_ATTEMPTS):
        last = load_timeline(storage, base_path).last_time
        known = max(t for t in (last, after, "") if t is not None)
        now = format_time(clock.utc_now() if utc else clock.local_now())
        instant = Instant(time_after(known or None, now), action, State.REQUESTED)
        path = instant_path(base_path, instant)
        try:
            storage.write_new(path, content)
        except AlreadyExists:
            continue
        if all(i.action is action for i in load_timeline(storage, base_path).instants if i.time == instant.time):
            return instant
        storage.delete(path)
        clock.sleep_s(0.001)
    raise CorruptFile(f"no free instant was found in {_ATTEMPTS} attempts; is the clock far behind {last}?")


def transition(storage: Storage, base_path: str, instant: Instant, to: State, content: bytes = b"") -> Instant:
    """Take an instant to its next state by creating that state's file. Raises AlreadyExists if somebody did."""
    after = instant.at(to)
    storage.write_new(instant_path(base_path, after), content)
    return after


def read_metadata(storage: Storage, base_path: str, instant: Instant) -> CommitMetadata:
    """The content of a write's file. Raises CorruptFile."""
    return read_commit(storage.read(instant_path(base_path, instant)), instant.file_name)

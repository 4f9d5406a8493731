"""The writes of a range, from the timeline and from its archive."""

from __future__ import annotations

import uuid

import pytest

from penstock.errors import CorruptFile
from penstock.services.archive.entries import archived_entry
from penstock.storage import MemoryStorage
from penstock.timeline.archive import archive_path, load_archive, write_entries
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.history import InstantRange, list_writes
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import load_timeline

TIMES = [f"2024010100000000{n}" for n in range(1, 4)]


def content(time: str) -> bytes:
    return write_commit(CommitMetadata((WriteStat("f", "p", f"p/f_0-0-0_{time}.parquet"),), operation="UPSERT"))


def entry(time: str) -> dict[str, object]:
    return archived_entry(Instant(time, Action.COMMIT, State.COMPLETED), content(time), 0, utc=False)


def table() -> MemoryStorage:
    storage = MemoryStorage(uuid.uuid4().hex)
    for time in TIMES:
        storage.write_new(f"/t/.hoodie/{time}.commit", content(time))
    return storage


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_write_that_is_archived_after_the_timeline_was_read_is_found_in_the_archive(is_archived: bool) -> None:
    storage = table()
    timeline = load_timeline(storage, "/t")
    if is_archived:
        archive = write_entries([entry(time) for time in TIMES[:2]], 10)
        storage.write_new(f"{archive_path('/t')}/.commits_.archive.1_1-0-1", archive)
    for time in TIMES[:2]:
        storage.delete(f"/t/.hoodie/{time}.commit")
    if not is_archived:
        with pytest.raises(CorruptFile, match=rf"{TIMES[0]}\.commit of /t is neither on the timeline any more nor archived"):
            list_writes(storage, "/t", timeline, InstantRange("0", TIMES[-1]))
        return
    found = list_writes(storage, "/t", timeline, InstantRange("0", TIMES[-1]))
    assert [(write.time, write.metadata.stats[0].path) for write in found] == [(t, f"p/f_0-0-0_{t}.parquet") for t in TIMES]


def test_an_archive_whose_files_are_merged_while_it_is_read_is_read_again() -> None:
    storage, folder = table(), archive_path("/t")
    names = [f"{folder}/.commits_.archive.{n}_1-0-1" for n in (1, 2, 3)]
    for name, time in zip(names, TIMES, strict=False):
        storage.write_new(name, write_entries([entry(time)], 10))

    class Merging(MemoryStorage):
        """The first two become one just before the second is read."""

        def read(self, path: str) -> bytes:
            if path == names[1] and self.stat(names[0]) is not None:
                self.write_new(f"{folder}/.commits_.archive.4_1-0-1", write_entries([entry(time) for time in TIMES[:2]], 10))
                self.delete(names[0])
                self.delete(names[1])
            return super().read(path)

    assert [one["commitTime"] for one in load_archive(Merging(storage.name), "/t")] == TIMES
    kept = load_archive(storage, "/t", keep=lambda one: one["commitTime"] == TIMES[2])
    assert [one["commitTime"] for one in kept] == TIMES[2:]

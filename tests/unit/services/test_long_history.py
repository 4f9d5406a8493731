"""A table with a long history: services after a commit cost the same, however many commits were archived before.

Storage calls and the entries of listings are counted. `python -m bench.growth --axes years` measures real commits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pytest

from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.storage import FileInfo
from penstock.timeline.archive import load_archive
from tests.unit.services.histories import CALLS, History, NotedStorage, base

#: Little is kept, so that hundreds of commits are as thousands.
KEEP = {"cleaner_commits_retained": 2, "keep_min_commits": 4, "keep_max_commits": 6}
#: Commits between two looks: many times as many as one run of archiving takes.
WINDOW = 24


@dataclass(frozen=True)
class EntriesNoted(NotedStorage):
    """A storage that also records every entry of a listing, without the archive's, of which each run of archiving lists one more."""

    def list(self, path: str) -> list[FileInfo]:
        found = super().list(path)
        CALLS[self.name] += [("entry", file.path) for file in found if "/archived/" not in file.path]
        return found


def serve(history: History, numbers: Sequence[int], groups: Callable[[int], list[str]]) -> Counter[str]:
    """Make commits, each followed by a clean and an archiving. Return the number of storage calls of both, by kind."""
    found: Counter[str] = Counter()
    for number in numbers:
        history.commit(number, groups(number))
        CALLS.pop(history.storage.name, None)
        clean(None, history.table(**KEEP), Stages("", "off"))
        archive(history.table(**KEEP))
        found += Counter(what for what, _ in CALLS.pop(history.storage.name))
    return found


HISTORIES: dict[str, Callable[[int], list[str]]] = {
    "one file group again and again": lambda number: ["p/a-0"],
    "a new partition each time": lambda number: [f"p{number}/f-0"],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_services_after_a_commit_cost_the_same_after_hundreds_of_commits(name: str) -> None:
    history = History(storage=EntriesNoted(uuid4().hex))
    serve(history, range(1, WINDOW), HISTORIES[name])
    early = serve(history, range(WINDOW, 2 * WINDOW), HISTORIES[name])
    serve(history, range(2 * WINDOW, 4 * WINDOW), HISTORIES[name])
    late = serve(history, range(4 * WINDOW, 5 * WINDOW), HISTORIES[name])
    for what in early | late:
        assert late[what] <= 1.05 * early[what] + 2, (what, early, late)
    table = history.table()
    assert len({e["commitTime"] for e in load_archive(table.storage, "/t") if e["actionType"] == "commit"}) > 4 * WINDOW
    assert len(table.timeline.instants) < 20


def test_an_empty_clean_is_kept_from_time_to_time_so_that_partitions_are_not_listed_again() -> None:
    history = History()
    serve(history, range(1, 100), HISTORIES["a new partition each time"])
    cleans = [name for name in history.instants() if name.endswith(".clean")]
    assert 2 <= len(cleans) <= 6
    history.calls()
    clean(None, history.table(**KEEP), Stages("", "off"))
    assert history.calls("list") == []
    history.commit(100, ["p50/f-0"])  # and what grows old later is found
    serve(history, range(101, 120), HISTORIES["a new partition each time"])
    assert [file for file in history.data_files("/t/p50/") if ".parquet" in file] == [f"p50/{base('f-0', 100)}"]

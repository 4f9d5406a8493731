"""What a write has found out about concurrent commits, so that it does not find it out again while it holds the lock.

A commit is checked as often as another writer takes the turn that it wanted (`claims.py`). Each concurrent commit is parsed once.
An expensive look at the rows of concurrent commits is made without the lock; then the commit takes its turn again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.commit.overlap import ConcurrentCommit

#: How often a look is made without the lock. If others commit again and again, the last one is made under the lock.
_MOST_LOOKS = 5


@dataclass(frozen=True)
class Look:
    """An expensive check of concurrent commits, which does not depend on later commits."""

    #: Whether the look is needed because of these commits. Cheap.
    concerns: Callable[[Sequence[ConcurrentCommit]], bool]
    #: Raises WriteConflict if one of the commits conflicts.
    check: Callable[[Sequence[ConcurrentCommit]], None]


class LookNeeded(Exception):
    """Ends the turn of a commit, because concurrent commits have to be looked at without the lock."""

    def __init__(self, commits: Sequence[ConcurrentCommit]) -> None:
        super().__init__("a look at concurrent commits is needed")
        self.commits = commits


@dataclass
class SeenCommits:
    """The concurrent commits that a write has parsed and looked at."""

    look: Look | None
    #: Parsed commits by instant time.
    parsed: dict[str, ConcurrentCommit] = field(default_factory=dict)
    _looked_at: set[str] = field(default_factory=set)
    _looks: int = 0

    def check(self, commits: Sequence[ConcurrentCommit]) -> None:
        """Raise LookNeeded if there are commits to look at. Called in the turn of the commit."""
        new = [commit for commit in commits if commit.instant.time not in self._looked_at]
        if self.look is None or not new or not self.look.concerns(new):
            return
        if self._looks < _MOST_LOOKS:
            raise LookNeeded(new)
        self.look.check(new)

    def look_at(self, commits: Sequence[ConcurrentCommit]) -> None:
        """Look at commits. Called without the lock. Raises WriteConflict."""
        if self.look is not None:
            self.look.check(commits)
        self._looks += 1
        self._looked_at.update(commit.instant.time for commit in commits)

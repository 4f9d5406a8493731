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
    """An expensive check of concurrent commits, for example one that reads their rows. Later commits do not change its result."""

    #: Whether the look is needed because of these commits. Cheap.
    concerns: Callable[[Sequence[ConcurrentCommit]], bool]
    #: Raises WriteConflict if one of the commits conflicts.
    check: Callable[[Sequence[ConcurrentCommit]], None]


class LookNeeded(Exception):
    """Ends the transaction of a commit, because concurrent commits need the expensive check (`Look`).

    The check is made without the lock. Then the transaction begins again.
    """

    def __init__(self, commits: Sequence[ConcurrentCommit]) -> None:
        super().__init__("a look at concurrent commits is needed")
        self.commits = commits


@dataclass
class SeenCommits:
    """The concurrent commits that a write has parsed, and those that have passed its expensive check (`look`)."""

    look: Look | None
    #: Parsed commits by instant time.
    parsed: dict[str, ConcurrentCommit] = field(default_factory=dict)
    _looked_at: set[str] = field(default_factory=set)
    _looks: int = 0

    def check(self, commits: Sequence[ConcurrentCommit]) -> None:
        """Raise LookNeeded if some of these commits need the expensive check and have not passed it yet. Otherwise do nothing.

        Called in the transaction of the commit, under the lock. If the check was made `_MOST_LOOKS` times without the lock, make
        it here.

        Raises:
            WriteConflict: the check was made here and found a conflict.
        """
        new = [commit for commit in commits if commit.instant.time not in self._looked_at]
        if self.look is None or not new or not self.look.concerns(new):
            return
        if self._looks < _MOST_LOOKS:
            raise LookNeeded(new)
        self.look.check(new)

    def look_at(self, commits: Sequence[ConcurrentCommit]) -> None:
        """Make the expensive check of these commits, and remember that they have passed it. Called without the lock.

        Raises:
            WriteConflict: one of the commits conflicts with the write.
        """
        if self.look is not None:
            self.look.check(commits)
        self._looks += 1
        self._looked_at.update(commit.instant.time for commit in commits)

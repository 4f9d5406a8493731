"""A storage that lets other processes act between two calls: before a call that matches, the next action runs, once."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.storage import FileInfo, LocalStorage


@dataclass(frozen=True)
class InterleavingStorage(LocalStorage):
    """The local file system, with actions of other processes before calls of `list` and `read`."""

    #: The pattern that is searched for in the call's name and path.
    match: str = ""
    actions: deque[Callable[[], object]] = field(default_factory=deque, compare=False)

    def list(self, path: str) -> list[FileInfo]:
        self._run_next_action(f"list {path}")
        return super().list(path)

    def read(self, path: str) -> bytes:
        self._run_next_action(f"read {path}")
        return super().read(path)

    def _run_next_action(self, call: str) -> None:
        if self.actions and re.search(self.match, call):
            self.actions.popleft()()

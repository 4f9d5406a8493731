"""Tables that many tests begin with: written once, and copied for each test that asks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Templates:
    """Tables by name, which nobody writes on."""

    folder: Path
    _made: set[str] = field(default_factory=set)

    def copy(self, name: str, make: Callable[[str], object], path: str | Path) -> str:
        """A copy at `path` of the table that `make` writes at the path it is given, the first time somebody asks for the name."""
        template = self.folder / name
        if name not in self._made:
            make(str(template))
            self._made.add(name)
        return str(shutil.copytree(template, path))

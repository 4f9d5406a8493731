"""Tables that many tests begin with: written once, and copied for each test that asks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Templates:
    """Tables by name. Tests copy them and never write to them."""

    folder: Path
    _made: set[str] = field(default_factory=set)

    def at(self, name: str, make: Callable[[str], object]) -> str:
        """Return the path of a table. The first call with a name lets `make` write the table."""
        template = str(self.folder / name)
        if name not in self._made:
            make(template)
            self._made.add(name)
        return template

    def copy(self, name: str, make: Callable[[str], object], path: str | Path) -> str:
        """Copy a table to `path`, and return the path."""
        return str(shutil.copytree(self.at(name, make), path))

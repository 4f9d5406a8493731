"""Tables that real Hudi wrote, kept as zip files in `tests/data/tables`."""

from __future__ import annotations

import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "data" / "tables"


def golden_names() -> list[str]:
    """Return the names of all golden tables."""
    return sorted(path.stem for path in FOLDER.glob("*.zip"))


def unpack_golden(name: str, folder: Path) -> Path:
    """Unpack a table into a folder, where it may be written to. Return its base path."""
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
        archive.extractall(folder, [name for name in archive.namelist() if not name.startswith("__MACOSX/")])
    found = sorted(path.parent for path in folder.rglob(".hoodie") if ".hoodie" not in path.parent.parts)
    if len(found) != 1:
        raise ValueError(f"{name}.zip holds {len(found)} tables, not one")
    return found[0]

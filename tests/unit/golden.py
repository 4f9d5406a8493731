"""Golden tables for unit tests: the files of a table that real Hudi wrote, straight from its zip."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

FOLDER = Path(__file__).resolve().parents[1] / "data" / "tables"
NAMES = sorted(path.stem for path in FOLDER.glob("*.zip"))


def golden_files(name: str, pattern: str) -> dict[str, bytes]:
    """Give the files of a table whose path within it fits the pattern, without what macOS put beside them."""
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
        paths = [PurePosixPath(path) for path in archive.namelist() if not path.startswith("__MACOSX/")]
        inside = {str(path): str(path.relative_to(path.parts[0])) for path in paths if len(path.parts) > 1}
        chosen = {path: short for path, short in inside.items() if PurePosixPath(path).match(pattern)}
        return {short: archive.read(path) for path, short in sorted(chosen.items())}

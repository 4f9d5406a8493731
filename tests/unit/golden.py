"""Golden tables for unit tests: files of a table that real Hudi wrote, straight from its zip."""

from __future__ import annotations

import zipfile
from pathlib import PurePosixPath

from tests.kit.golden import FOLDER, golden_names

NAMES = golden_names()


def golden_files(name: str, pattern: str) -> dict[str, bytes]:
    """Return the files of a table whose path matches the pattern (from the right), by their path within the table."""
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
        paths = [PurePosixPath(path) for path in archive.namelist() if not path.startswith("__MACOSX/")]
        chosen = [path for path in paths if path.match(pattern)]
        return {str(path.relative_to(path.parts[0])): archive.read(str(path)) for path in sorted(chosen)}

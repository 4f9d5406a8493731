"""Builds a zip of the package, for Spark executors on which Penstock is not installed.

`penstock/bundle.py` writes the zip to a file of the user's choice; `penstock/workers/prepare.py` sends it to executors. The same
package always produces the same bytes. The zip holds only Penstock's own files: executors need pyarrow and numpy.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

PACKAGE = "penstock"
#: The earliest time that a zip can hold. The times of the files would change the bytes of every copy.
_TIME = (1980, 1, 1, 0, 0, 0)


def zip_package() -> bytes:
    """Return the package as a zip. The bytes depend on the sources alone: times and permissions are constant."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(_sources(files(PACKAGE), PACKAGE)):
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system = 3  # Unix, whatever the machine is
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


def package_version() -> str:
    """Return the version of the installed package; "0" if it is not installed but a folder on Python's path."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and workers do not need it

    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "0"


def _sources(folder: Any, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path in the zip and the content of each file of the package, and of a metadata file with the version.

    Args:
        folder: the folder to read, of the package or below it.
        name: the path of the folder in the zip.
    """
    for entry in folder.iterdir():
        inner = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, inner)
        elif entry.name.endswith((".py", ".typed")):
            yield inner, entry.read_bytes()
    if name == PACKAGE:
        metadata = f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {package_version()}\n"
        yield f"{PACKAGE}-{package_version()}.dist-info/METADATA", metadata.encode()

"""The package as a zip, for executors that do not have it installed. A door for administrators; `docs/executors.md` says how.

`penstock.bundle("penstock.zip")` in a program, `python -m penstock.bundle penstock.zip` in a terminal. The same package
gives the same bytes, whenever and wherever it is packed. Python's own files only: pyarrow and numpy have to be there.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from types import ModuleType
from typing import Any

from penstock.errors import OptionError
from penstock.storage import open_storage

_PACKAGE = "penstock"
#: The earliest time that a zip can hold; the files' own would make every copy another one.
_TIME = (1980, 1, 1, 0, 0, 0)
_USAGE = "usage: python -m penstock.bundle OUT.zip"


def bundle(path: str | os.PathLike[str]) -> str:
    """Write the package as a zip that `--py-files` and `spark.addArtifacts(…, pyfile=True)` take; gives its full path.

    Raises:
        OptionError: the name does not end in `.zip`, which is how Spark tells what it is.
        StorageError: the file cannot be written.

    Example:
        >>> penstock.bundle(path + "/penstock.zip")
        '.../penstock.zip'
    """
    storage, target = open_storage(os.fspath(path))
    if not target.endswith(".zip"):
        raise OptionError(f"the bundle's name {os.fspath(path)!r} must end in .zip, or Spark does not put it on Python's path")
    storage.replace(target, _zipped(sorted(_sources(files(_PACKAGE), _PACKAGE))))
    return target


def _sources(folder: Any, name: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the package's files, and of the one that says its version."""
    for entry in folder.iterdir():
        inner = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, inner)
        elif entry.name.endswith((".py", ".typed")):
            yield inner, entry.read_bytes()
    if name == _PACKAGE:
        from penstock import __version__

        metadata = f"Metadata-Version: 2.1\nName: {_PACKAGE}\nVersion: {__version__}\n"
        yield f"{_PACKAGE}-{__version__}.dist-info/METADATA", metadata.encode()


def _zipped(sources: list[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sources:
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system, info.external_attr, info.compress_type = 3, 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


class _Callable(ModuleType):
    """`penstock.bundle` is this module once it has been imported by that name; it is to be the function all the same."""

    def __call__(self, path: str | os.PathLike[str]) -> str:
        return bundle(path)


sys.modules[__name__].__class__ = _Callable


def main(arguments: list[str]) -> int:
    """The command line."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write(_USAGE + "\n")
        return 2
    try:
        sys.stdout.write(bundle(arguments[0]) + "\n")
    except (OptionError, OSError) as e:
        sys.stderr.write(f"{e}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

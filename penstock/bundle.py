"""Builds a zip of the package, for Spark executors on which Penstock is not installed. `docs/executors.md` shows how to use it.

Call `penstock.bundle("penstock.zip")` in a program, or `python -m penstock.bundle penstock.zip` in a terminal. The same package
always produces the same bytes. The zip holds only Penstock's own files: executors need pyarrow and numpy.
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
#: The earliest time that a zip can hold. The times of the files would change the bytes of every copy.
_TIME = (1980, 1, 1, 0, 0, 0)
_USAGE = "usage: python -m penstock.bundle OUT.zip"


def bundle(path: str | os.PathLike[str]) -> str:
    """Write a zip of the package, for `--py-files` or `spark.addArtifacts(…, pyfile=True)`. Return the full path of the zip.

    Args:
        path: where to write the zip.

    Raises:
        OptionError: the name does not end in `.zip`, by which Spark recognizes a package.
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
    if name == _PACKAGE:
        from penstock import __version__

        metadata = f"Metadata-Version: 2.1\nName: {_PACKAGE}\nVersion: {__version__}\n"
        yield f"{_PACKAGE}-{__version__}.dist-info/METADATA", metadata.encode()


def _zipped(sources: list[tuple[str, bytes]]) -> bytes:
    """Return a zip of these (path, content) pairs. The bytes depend on nothing else: times and permissions are constant."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sources:
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system = 3  # Unix, whatever the machine is
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


class _Callable(ModuleType):
    """The class of this module, which makes it callable like the function `bundle`.

    After `import penstock.bundle` the name `penstock.bundle` is the module, not the function.
    """

    def __call__(self, path: str | os.PathLike[str]) -> str:
        return bundle(path)


sys.modules[__name__].__class__ = _Callable


def main(arguments: list[str]) -> int:
    """Run `python -m penstock.bundle` with these arguments, and return the exit code."""
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

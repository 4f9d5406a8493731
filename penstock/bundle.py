"""Writes a zip of the package, for Spark executors on which Penstock is not installed. `docs/executors.md` shows how to use it.

Call `penstock.bundle("penstock.zip")` in a program, or `python -m penstock.bundle penstock.zip` in a terminal. The same package
always produces the same bytes. The zip holds only Penstock's own files: executors need pyarrow and numpy.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from penstock.errors import OptionError
from penstock.package_zip import zip_package
from penstock.storage import open_storage

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
    storage.replace(target, zip_package())
    return target


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

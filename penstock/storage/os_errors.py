"""Converts errors of the operating system to `StorageError`, for code that writes files through Arrow or Parquet streams."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from penstock.errors import StorageError


@contextlib.contextmanager
def convert_os_errors(path: str) -> Iterator[None]:
    """Convert an OSError inside the `with` block (a full disk, for example) to a StorageError that names the path."""
    try:
        yield
    except StorageError:
        raise
    except OSError as e:
        raise StorageError(e.errno, e.strerror or str(e), path) from e

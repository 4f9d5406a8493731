"""Errors of the operating system as Penstock's own, while files are written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from penstock.errors import StorageError


@contextlib.contextmanager
def convert_os_errors(path: str) -> Iterator[None]:
    """Raise an error of the operating system inside the block, a full disk for example, as a StorageError that names the path."""
    try:
        yield
    except StorageError:
        raise
    except OSError as e:
        raise StorageError(e.errno, e.strerror or str(e), path) from e

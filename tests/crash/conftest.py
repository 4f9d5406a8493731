"""Fixtures of the crash tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder in memory where the machine has one: the tests make thousands of tables."""
    memory = "/dev/shm"
    with TemporaryDirectory(dir=memory if os.path.isdir(memory) else None) as made:
        yield Path(made)

"""Fixtures of the interop tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.sides import Penstock


@pytest.fixture
def us(spark: Any, tmp_path: Path) -> Penstock:
    """Penstock as one of the engines that share a table."""
    folder = tmp_path / "rows"
    folder.mkdir()
    return Penstock(spark, folder)

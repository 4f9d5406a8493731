"""Tables that tests of this folder begin with."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.kit.templates import Templates
from tests.table.tables import SIX, trips, write


@pytest.fixture
def made(spark: Any, templates: Templates) -> str:
    """Six trips in three cities, by a bulk_insert. Read only: `table` is a copy. A test file may define another."""
    return templates.at("six-trips", lambda path: write(trips(spark, *SIX), path))


@pytest.fixture
def table(made: str, table_path: str) -> str:
    """A copy of the table that the tests of a file begin with."""
    return shutil.copytree(made, table_path)

"""The pictures of the documentation are what their scripts draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.draw_architecture import PICTURES, UPSERT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_script_draws(name: str) -> None:
    assert (ROOT / name).read_text() == PICTURES[name](), "run make docs"


def test_the_way_of_an_upsert_names_modules_that_exist() -> None:
    missing = [step.module for step in UPSERT if not _exists(step.module)]
    assert missing == []


def _exists(module: str) -> bool:
    path = ROOT / "penstock" / module
    return path.is_dir() or path.with_suffix(".py").exists()

"""docs/options.md agrees with the catalogue."""

from __future__ import annotations

from pathlib import Path

from penstock.options import AREAS, CATALOGUE, render_markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "options.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_markdown(), "run: python scripts/render_options.py"


def test_the_page_has_a_table_per_area_and_a_row_per_option() -> None:
    lines = render_markdown().splitlines()
    assert [line[3:] for line in lines if line.startswith("## ")] == [area.title for area in AREAS]
    for key in CATALOGUE:
        assert sum(line.startswith(f"| `{key}`") for line in lines) == 1, key


def test_every_row_has_five_cells() -> None:
    rows = [line for line in render_markdown().partition("## ")[2].splitlines() if line.startswith("|")]
    assert {line.count(" | ") for line in rows} == {4}


def test_a_size_is_shown_in_units_people_read() -> None:
    assert "| `104857600` (100 MiB) |" in render_markdown()

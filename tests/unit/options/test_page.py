"""docs/options.md agrees with the catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.options import AREAS, CATALOGUE, Option, render_markdown, render_missing
from scripts.render_options import fill_readme

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "options.md"
README = ROOT / "README.md"
REFUSED = [option for option in CATALOGUE.values() if option.supported is not None and not option.ignored]


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


def test_the_readmes_list_of_missing_features_is_up_to_date() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == fill_readme(text), "run: python scripts/render_options.py"
    assert render_missing() in text


@pytest.mark.parametrize("option", REFUSED, ids=lambda option: option.key)
def test_the_readmes_list_names_every_option_with_refused_values(option: Option[Any]) -> None:
    assert re.search(rf"`{re.escape(option.key)}(=[^`]+)?`", render_missing())


def test_the_readmes_list_has_a_row_for_every_feature_that_options_wait_for() -> None:
    rows = [line.split(" | ")[0].removeprefix("| ") for line in render_missing().splitlines()]
    assert len(rows) == len(set(rows))
    assert {option.waits_for for option in CATALOGUE.values()} - {""} <= set(rows)


def test_a_refused_value_is_in_the_readmes_list_with_its_feature() -> None:
    lines = render_missing().splitlines()
    assert "| the record index | `hoodie.index.type=RECORD_INDEX`, `FLINK_STATE` |" in lines
    assert any("`hoodie.table.cdc.enabled=true`, `hoodie.datasource.query.incremental.format=cdc`" in line for line in lines)

"""The speed figures on pages are those of the published results."""

from __future__ import annotations

import pytest

from bench.figures import ROOT, TABLES, published, refreshed


@pytest.mark.parametrize("page", TABLES)
def test_a_page_has_the_figures_of_the_published_benchmark(page: str) -> None:
    text = (ROOT / page).read_text()
    assert refreshed(page, text, published()) == text, "run python -m bench.figures"


def test_a_page_without_a_place_for_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"README\.md has no place"):
        refreshed("README.md", "nothing", published())

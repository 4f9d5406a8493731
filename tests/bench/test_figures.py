"""The speed figures on pages are those of the published results."""

from __future__ import annotations

import pytest

from bench.figures import ROOT, SPEED_ENGINES, TABLES, published, refreshed


@pytest.mark.parametrize("page", TABLES)
def test_a_page_has_the_figures_of_the_published_benchmark(page: str) -> None:
    text = (ROOT / page).read_text()
    assert refreshed(page, text, published()) == text, "run python -m bench.figures"


def test_a_page_without_a_place_for_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"README\.md has no place"):
        refreshed("README.md", "nothing", published())


def test_rows_out_of_a_spark_plan_have_a_line_of_their_own() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("| bulk insert, rows out of a Spark plan |")]
    cells = dict(zip(SPEED_ENGINES, [cell.strip() for cell in line.strip("|").split("|")][1:], strict=True))
    measured = published()["penstockjvm"]["W1"]["s"] / published()["limit"]["W1"]["s"]
    assert (cells["penstock"], cells["penstock43"]) == ("", f"{measured:.1f}")

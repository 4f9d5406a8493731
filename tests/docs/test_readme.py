"""The README's examples run as written, and print what it says they print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks_of, run

README = ROOT / "README.md"


def test_the_first_example_is_ten_lines() -> None:
    first = next(block for block in blocks_of(README) if block.language == "python")
    assert len(first.text.splitlines()) == 10


def test_the_examples_print_what_the_page_says(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = [block for block in blocks_of(README) if block.language in ("python", "text")]
    assert [block.language for block in blocks] == ["python", "text"] * (len(blocks) // 2)
    for code, printed in zip(blocks[::2], blocks[1::2], strict=True):
        run(code, names, README)
        assert capsys.readouterr().out.strip() == printed.text.strip()


def test_every_link_leads_somewhere() -> None:
    import re

    for page in [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_page_says_how_to_install_a_release_and_a_checkout() -> None:
    shells = [block.text for block in blocks_of(README) if block.language == "sh"]
    assert any("pip install 'penstock[spark]'" in text for text in shells)
    assert any("pip install '.[spark,java,cli]'" in text and "penstock --version" in text for text in shells)
    assert README.read_text().rstrip().endswith("independent project."), "the end of the page is lost"


def test_the_speed_table_says_what_its_input_is() -> None:
    text = README.read_text()
    said, table = text[text.index("## How fast") : text.index("## What works")].split("<!-- speed", 1)
    assert "Parquet files" in said
    assert "rows out of a Spark plan" in table
    for line in ("query over its logs", "count of one of these partitions"):
        assert line in table, "a line where other engines are ahead"

"""Write docs/options.md and the README's list "Not yet" from the option catalogue. A unit test fails when one is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from penstock.options import render_markdown, render_missing  # noqa: E402

PAGE = ROOT / "docs" / "options.md"
README = ROOT / "README.md"
BEGIN = "<!-- not yet, by scripts/render_options.py: begin -->\n"
END = "\n<!-- not yet, by scripts/render_options.py: end -->"


def fill_readme(text: str) -> str:
    """Return the README with the list of missing features rendered again between its two marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("README.md has lost a mark of the list: what follows it would be lost too")
    return before + BEGIN + render_missing() + END + after


if __name__ == "__main__":
    PAGE.write_text(render_markdown(), encoding="utf-8")
    README.write_text(fill_readme(README.read_text(encoding="utf-8")), encoding="utf-8")

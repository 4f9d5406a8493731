"""Write docs/options.md from the option catalogue. A unit test fails when the page is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from penstock.options import render_markdown  # noqa: E402

if __name__ == "__main__":
    (ROOT / "docs" / "options.md").write_text(render_markdown(), encoding="utf-8")

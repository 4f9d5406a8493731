"""Python examples on the pages under `docs/` run, and statements of the pages about the code are true."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.payloads import GOAL
from penstock.options.payload_names import HUDI_PAYLOADS, PENSTOCK_PAYLOADS
from tests.docs.kernels import find_kernels
from tests.docs.pages import ROOT, blocks_of, run

PAGES = sorted((ROOT / "docs").glob("*.md"))
#: Modules that certainly have functions that run in workers: of upserts, inserts, lookups, queries and services.
WITH_KERNELS = {
    "penstock.write.tasks.upsert_kernel",
    "penstock.write.tasks.insert",
    "penstock.write.locate.tag",
    "penstock.read.log_slices",
    "penstock.services.compaction.compact_slice",
}
#: Pages with examples to run. `docs/extending.md` is run by tests/table/test_extending.py, on a copy of the package.
WITH_CODE = [
    page for page in PAGES if page.name != "extending.md" and any(block.language == "python" for block in blocks_of(page))
]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.name)
def test_the_examples_of_a_page_run_as_pasted(page: Path, spark: Any, session_kind: str) -> None:
    """A newcomer has no names: the first example of the page makes them."""
    names: dict[str, Any] = {"__name__": "__main__"}
    ran = 0
    for block in blocks_of(page):
        if block.language == "python" and session_kind in (block.words or (session_kind,)):
            if session_kind == "connect" and not ran:  # a Connect session is made with its server's address, before the page
                names["spark"] = spark
                block = replace(block, text=block.text.replace("penstock.session()", "penstock.enable(spark)"))
            run(block, names, page)
            ran += 1
    assert ran > 1
    assert names["spark"] is not None


def test_all_pages_begin_with_the_same_lines() -> None:
    firsts = {page.name: next(block.text for block in blocks_of(page) if block.language == "python") for page in WITH_CODE}
    assert len(set(firsts.values())) == 1
    names = ("spark =", "path =", "trips =", "table =")
    assert all(name in next(iter(firsts.values())) for name in names)


@pytest.mark.parametrize(
    "name", [name.removeprefix("org.apache.hudi.common.model.") for name in (*HUDI_PAYLOADS, *PENSTOCK_PAYLOADS)]
)
def test_a_payload_has_an_example_and_a_figure_within_the_goal(name: str) -> None:
    page = ROOT / "docs" / "payloads.md"
    assert any(f'"{name}"' in block.text for block in blocks_of(page) if block.language == "python")
    (times_default,) = re.findall(rf"^\| `{re.escape(name)}` \| [0-9.]+ s \| ([0-9.]+) \|$", page.read_text(), re.MULTILINE)
    assert float(times_default) <= GOAL


def test_the_architecture_page_has_the_layers_that_the_test_holds() -> None:
    from tests.unit.test_layers import LAYERS

    text = (ROOT / "docs" / "architecture.md").read_text()
    listed = next(block for block in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if " > " in block)
    assert [set(level.split()) for level in listed.split(">")] == LAYERS


def test_the_architecture_page_shows_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    parts = [p.name for p in (ROOT / "penstock").iterdir() if not p.name.startswith("_") and p.suffix in ("", ".py")]
    missing = [name for name in parts if name not in text and f"{name}/" not in text]
    assert missing == []


def test_workers_import_neither_fastavro_nor_rich_nor_pandas() -> None:
    """What docs/executors.md says a worker needs: all modules with kernels are imported with the other packages out of reach."""
    modules = sorted({module for module, _ in find_kernels()})
    program = f"""
import importlib, sys
for name in ("fastavro", "rich", "pandas"):
    sys.modules[name] = None
for name in {modules!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(WITH_KERNELS - set(modules)) == [], "the search for kernels misses modules that have some"


def test_kernels_are_functions_of_the_modules_that_the_search_names() -> None:
    for module, name in find_kernels():
        assert callable(getattr(importlib.import_module(module), name)), f"{module}.{name}"

"""Every public name has an example in its docstring, and every example runs as written."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
import penstock.api
from penstock.api import (
    cleaning,
    clustering,
    compaction,
    index_report,
    locking,
    maintenance,
    read,
    report,
    restoring,
    syncing,
    table,
    write,
)
from penstock.api import inspect as inspecting
from penstock.bundle import bundle
from penstock.registered.functions import merger, payload
from penstock.registered.locks import lock_provider
from penstock.registered.sync_tools import sync_tool
from penstock.testing import check_merger

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    yield doctest.DocTestParser().get_doctest(penstock.__doc__ or "", {}, "penstock", penstock.__file__, 0)
    verbs = (write, read, inspecting, index_report, cleaning, clustering, compaction, restoring, maintenance, syncing, locking)
    for thing in (report, table, *verbs, bundle, lock_provider, merger, payload, sync_tool, check_merger):
        yield from (found for found in finder.find(thing) if found.examples)


def public_names() -> Iterator[tuple[str, Any]]:
    for name in penstock.api.__all__:
        thing = getattr(penstock.api, name)
        if inspect.isclass(thing):
            yield name, thing
    verbs = {name: thing for kind in penstock.Table.__mro__[:-1] for name, thing in vars(kind).items()}
    for name, thing in verbs.items():
        if not name.startswith("_") and (callable(thing) or isinstance(thing, classmethod | staticmethod | property)):
            yield f"Table.{name}", thing
    functions = {
        "bundle": bundle,
        "lock_provider": lock_provider,
        "merger": merger,
        "payload": payload,
        "sync_tool": sync_tool,
        "check_merger": check_merger,
    }
    yield from functions.items()


@pytest.mark.parametrize("example", list(examples()), ids=lambda e: e.name)
def test_the_example_runs_as_written(
    example: doctest.DocTest, names_with_table: dict[str, Any], merge_on_read_path: Callable[[], str]
) -> None:
    example.globs = dict(names_with_table)
    if any("mor." in one.source for one in example.examples):
        example.globs["mor"] = penstock.Table.open(merge_on_read_path(), names_with_table["spark"])
    said: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append, clear_globs=False)
    assert tried > 0
    assert failed == 0, "".join(said)


@pytest.mark.parametrize(("name", "thing"), list(public_names()), ids=lambda v: v if isinstance(v, str) else "")
def test_a_public_name_has_an_example(name: str, thing: Any) -> None:
    assert ">>> " in (inspect.getdoc(thing) or ""), f"{name} has no example"


def test_every_exported_name_can_be_imported() -> None:
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None


def test_errors_are_an_attribute_of_the_package_without_an_import() -> None:
    program = "import penstock; print(penstock.errors.WriteConflict.__name__)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "WriteConflict\n"


def test_dir_shows_the_public_names_alone() -> None:
    import penstock.errors

    assert penstock.errors is not None, "submodules are attributes of the package, too"
    assert dir(penstock) == sorted(penstock.__all__)

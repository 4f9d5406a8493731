"""A warning points at the user's line, through frames of Penstock, PySpark and the standard library."""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import penstock
from penstock.user_warning import warn_user


def make_caller(package: str) -> Callable[[Callable[[], None]], None]:
    """Return a function of a module in this package that calls its argument."""
    module = ModuleType(f"{package}.somewhere")
    exec("def call(function):\n    function()\n", module.__dict__)
    caller: Callable[[Callable[[], None]], None] = module.call
    return caller


def test_a_warning_points_at_the_line_that_called() -> None:
    with pytest.warns(RuntimeWarning, match="careful") as caught:
        warn_user("careful")
    line = sys._getframe().f_lineno - 1
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


@pytest.mark.parametrize("packages", [("penstock",), ("penstock", "contextlib", "penstock"), ("penstock", "pyspark"), ("py4j",)])
def test_frames_of_libraries_are_skipped(packages: tuple[str, ...]) -> None:
    call: Callable[[], None] = functools.partial(warn_user, "careful", UserWarning)
    for package in packages:
        call = functools.partial(make_caller(package), call)
    with pytest.warns(UserWarning, match="careful") as caught:
        call()
    line = sys._getframe().f_lineno - 1
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


def test_the_callers_module_filters_the_warning() -> None:
    """Python shows a warning once per line, and lets users filter it by their module."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", module=__name__.replace(".", r"\."))
        for _ in range(3):
            warn_user("careful, once")
    assert [str(warning.message) for warning in caught] == ["careful, once"]


def test_every_warning_of_penstock_points_at_the_users_line() -> None:
    """A fixed number of frames is wrong as soon as a caller changes."""
    package = Path(penstock.__file__).parent
    sources = [file for file in package.rglob("*.py") if file.name != "user_warning.py"]
    own_call = re.compile(r"\bwarn(_explicit)?\(|from warnings import")
    assert [str(file) for file in sources if own_call.search(file.read_text(encoding="utf-8"))] == []

"""`warn_user`: warnings that point at the line of the user's program that called Penstock."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

#: Packages whose lines a warning never points at: Penstock, what Penstock calls or is called by, and the standard library.
_SKIPPED = frozenset({"penstock", "pyspark", "py4j"}) | sys.stdlib_module_names


def warn_user(text: str, category: type[Warning] = RuntimeWarning) -> None:
    """Issue a warning that points at the line of the user's program that called Penstock.

    This is the innermost line of the call stack outside of Penstock, PySpark, py4j and the standard library. If there is none, as
    in a thread of Penstock, the warning points at the caller of this function.
    """
    caller = sys._getframe(1)
    frame = _find_user_frame(caller) or caller
    module = frame.f_globals.get("__name__", "<unknown>")
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


def _find_user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame, from `frame` outwards, whose module is in no skipped package; None if there is none."""
    while frame is not None and _package_of(frame) in _SKIPPED:
        frame = frame.f_back
    return frame


def _package_of(frame: FrameType) -> str:
    """Return the name of the top-level package of a frame's module; `__main__` for the user's main program."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]

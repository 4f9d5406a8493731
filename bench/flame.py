"""Sampled stacks of one thread, as collapsed text and as a flame graph in SVG. No dependency, no privilege.

The sampled thread must release the interpreter from time to time; Arrow's kernels do. What happens inside a compiled call
is shown as the line that made the call.
"""

from __future__ import annotations

import html
import linecache
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

Stack = tuple[str, ...]
_EVERY_SECONDS = 0.002
_WIDTH, _HEIGHT, _LEAST = 1200, 17, 0.3
_PALETTE = {"penstock": "#3aa17e", "pyarrow": "#e3a857", "pyspark": "#7a9cc6", "numpy": "#b58bc9"}
_OTHER = "#c9c9c9"


class Sampler:
    """Samples a thread's stack."""

    def __init__(self, thread: int | None = None) -> None:
        self.stacks: Counter[Stack] = Counter()
        self._thread = thread or threading.get_ident()
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        self._stop.clear()
        watcher.start()
        try:
            yield
        finally:
            self._stop.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            frame = sys._current_frames().get(self._thread)
            if frame is not None:
                self.stacks[_stack_of(frame)] += 1
            time.sleep(_EVERY_SECONDS)


def _stack_of(frame: FrameType) -> Stack:
    """Return the names from the outermost call inwards, and last the line that is running."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    found = [f"{_module_of(frame)}:{frame.f_lineno}  {line[:90]}"] if line else []
    at: FrameType | None = frame
    while at is not None:
        found.append(f"{_module_of(at)}.{at.f_code.co_name}")
        at = at.f_back
    return tuple(reversed(found))


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?"))


def write_collapsed(stacks: Counter[Stack], file: Path, below: str = "") -> None:
    """Write one line per stack, in the form that flame graph tools read."""
    lines = [f"{';'.join(s.replace(';', ',') for s in stack)} {count}" for stack, count in cut(stacks, below).most_common()]
    file.write_text("\n".join(lines) + "\n")


def cut(stacks: Counter[Stack], below: str) -> Counter[Stack]:
    """Return the stacks without what is outside of a function; all of them if it is in none."""
    found: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        if not below:
            found[stack] += count
        elif below in stack:
            found[stack[stack.index(below) :]] += count
    return found or stacks


def write_flame(stacks: Counter[Stack], file: Path, title: str, below: str = "") -> None:
    """Write an SVG with one box per call, as wide as its share of the samples. Hover to read the whole name."""
    stacks = cut(stacks, below)
    total = sum(stacks.values()) or 1
    boxes = list(_boxes(stacks))
    depth = max((level for level, *_ in boxes), default=0) + 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{(depth + 2) * _HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="4" y="13" font-size="13">{html.escape(title)}, {total} samples</text>',
    ]
    for level, start, count, name in boxes:
        x, width = start / total * _WIDTH, count / total * _WIDTH
        if width < _LEAST:
            continue
        y = (level + 1.3) * _HEIGHT
        label = html.escape(name if len(name) * 6.2 < width else name[: max(0, int(width / 6.2) - 1)])
        told = html.escape(f"{name}: {count / total:.1%} ({count} samples)")
        parts.append(
            f'<g><title>{told}</title><rect x="{x:.1f}" y="{y:.1f}" width="{max(0.1, width - 0.5):.1f}" height="{_HEIGHT - 1}" '
            f'fill="{_PALETTE.get(name.split(".")[0], _OTHER)}" rx="1"/>'
            f'<text x="{x + 2:.1f}" y="{y + 12:.1f}">{label}</text></g>'
        )
    file.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _boxes(stacks: Counter[Stack]) -> Iterator[tuple[int, int, int, str]]:
    """Return (level, first sample, samples, name) of every call, neighbours merged."""
    ordered = sorted(stacks.items())
    todo = [(0, 0, ordered)]
    while todo:
        level, start, group = todo.pop()
        at = start
        index = 0
        while index < len(group):
            if len(group[index][0]) <= level:
                at += group[index][1]
                index += 1
                continue
            name, end, width = group[index][0][level], index, 0
            while end < len(group) and len(group[end][0]) > level and group[end][0][level] == name:
                width += group[end][1]
                end += 1
            yield level, at, width, name
            todo.append((level + 1, at, group[index:end]))
            at += width
            index = end

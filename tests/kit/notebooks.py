"""Runs the cells of a notebook in a real kernel, and puts their outputs into a comparable form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

#: What differs from run to run, and what stands for it.
_CHANGING = (
    (r"\b\d{17}\b", "INSTANT"),
    (r"'/[^']*'", "PATH"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", "TIME"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+", "FILE"),
    (r"\b[0-9a-f]{8}…", "FILE…"),
    (r"\b\d+\.\d\d s\b", "N s"),
    (r"\b[\d.]+ (B|kB)(?![a-z])", "SIZE"),
    (r"amplification about [\d.]+", "amplification about N"),
    (r"(?<= )\d+\.\d\d$", "N"),
    (r"─+", "─"),
    (r" +", " "),
)


@dataclass(frozen=True)
class Output:
    """One output of a cell: its kind, its plain text, and its HTML (empty if it has none)."""

    kind: str
    text: str
    html: str = ""

    @property
    def shown(self) -> str:
        """The kind and the plain text, without what differs from run to run."""
        return f"{self.kind}: {normalise(self.text)}"


@dataclass(frozen=True)
class Cell:
    """An executed cell: its outputs as the notebook stores them, and the kinds and texts of all display messages before that."""

    source: str
    outputs: tuple[Output, ...]
    messages: tuple[tuple[str, str], ...]

    @property
    def shown(self) -> list[str]:
        """The outputs in a comparable form."""
        return [output.shown for output in self.outputs]


class _RecordingClient(NotebookClient):
    """A client that keeps the display messages of each cell. A notebook stores only the last state of a display."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.messages: dict[int, list[tuple[str, str]]] = {}

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.messages.setdefault(cell_index, []).append((msg["msg_type"], msg["content"]["data"]["text/plain"]))
        return super().process_message(msg, cell, cell_index)


def run_notebook(sources: Sequence[str], folder: Path) -> list[Cell]:
    """Run cells in a kernel of this Python, in `folder`. A cell that raises does not stop the next one."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = _RecordingClient(notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(folder)}})
    client.execute()
    cells = []
    for number, cell in enumerate(notebook.cells):
        outputs = tuple(_read_output(output) for output in cell.outputs)
        cells.append(Cell(cell.source, outputs, tuple(client.messages.get(number, ()))))
    return cells


def _read_output(output: Any) -> Output:
    if output.output_type == "stream":
        return Output(output.name, output.text)
    if output.output_type == "error":
        return Output("error", f"{output.ename}: {output.evalue}")
    unknown = set(output.data) - {"text/plain", "text/html"}
    assert not unknown, f"unexpected kinds of output: {unknown}"
    return Output(output.output_type, output.data.get("text/plain", ""), output.data.get("text/html", ""))


def normalise(text: str) -> str:
    """Return a text without what differs from run to run."""
    lines = []
    for line in text.splitlines():
        for pattern, name in _CHANGING:
            line = re.sub(pattern, name, line)
        lines.append(line.strip())
    return "\n".join(lines)


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words.extend(data.split())


def words_of_html(page: str) -> list[str]:
    """Return the words that a reader of HTML sees, in order."""
    parser = _Words()
    parser.feed(page)
    return parser.words


def tags_of_html(page: str) -> set[str]:
    """Return the names of the elements in HTML."""
    parser = _Words()
    parser.feed(page)
    return parser.tags

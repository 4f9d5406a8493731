"""Finds the fenced blocks of Markdown pages and runs them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the words after the language, and its text."""

    language: str
    words: tuple[str, ...]
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return all fenced blocks that name a language, in order."""
    return [Block(language, tuple(words.split()), text) for language, words, text in _BLOCK.findall(page.read_text())]


def run(block: Block, names: dict[str, object], page: Path) -> None:
    """Run a Python block. Names that it defines stay in `names`."""
    exec(compile(block.text, str(page), "exec"), names)

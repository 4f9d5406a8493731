"""Habits that make code hard to read, found in the source: words, first sentences of docstrings, packed statements.

The rules are few, so that they do not become a burden. Where one stands in the way of a clear sentence, change the rule.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Words that made readers stumble, and what to write.
WORDS = {
    r"nobody|somebody|whoever|anybody": "name the subject: no writer, another process, the caller",
    r"likewise|the same by": "say it again in full",
    r"meanwhile": "while …, since …, concurrently",
    r"anew": "again, rebuilds",
    r"signs? of life": "heartbeat",
    r"(?:is|are|was|were|be|been|being) told": "is called with, receives, is reported",
    r"gives? back|given back|gives": "returns, yields",
    r"beside": "next to, concurrently with, besides",
    r"come to pass|comes to pass": "completes",
    r"as it stands|as they stand": "unchanged",
}
_WORDS = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), fix) for pattern, fix in WORDS.items()]
#: Words that begin a noun phrase, and "give". A function's first sentence begins with its verb, or with "Whether".
NOUN_STARTS = {
    "the", "a", "an", "what", "how", "which", "where", "when", "who", "whose", "why", "all", "those", "these", "that", "this", "same",
    "one", "every", "each", "some", "any", "no", "from", "as", "in", "of", "by", "with", "its", "their", "rows", "more", "other", "give",
}  # fmt: skip
LONGEST_FIRST_SENTENCE = 40

#: Folders that are not clean yet. The list only gets shorter.
TO_DO: tuple[str, ...] = ()


def _clean(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are not below a folder of `TO_DO`."""
    return sorted(path for path in paths if not any(path.is_relative_to(ROOT / folder) for folder in TO_DO))


PACKAGE = _clean((ROOT / "penstock").rglob("*.py"))
OTHERS = _clean(path for folder in ("tests", "bench", "scripts", "examples") for path in (ROOT / folder).rglob("*.py"))
SOURCES = [*PACKAGE, *OTHERS]
PAGES = _clean(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/decisions").glob("*.md"), *ROOT.glob("bench/*.md")]
)


def comments_and_docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each comment and docstring of a module."""
    source = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of string literals that are sentences: texts of errors, warnings and reports."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and id(node) not in docstrings:
            yield node.lineno, node.value


def wrong_words(text: str) -> list[str]:
    """Return the words of the list that a text holds, each with what to write."""
    text = re.sub(r"`[^`]*`", "", text)
    return [f"{found[0]!r} ({fix})" for word, fix in _WORDS for found in word.finditer(text)]


def wrong_first_sentence(node: ast.FunctionDef) -> str | None:
    """Return what is wrong with the first sentence of a function's docstring."""
    text = ast.get_docstring(node)
    if not text:
        return None
    first = re.split(r"(?<=[.:])\s|\n\n", text, maxsplit=1)[0]
    words = first.split()
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    is_value = decorators & {"property", "cached_property", "fixture"} or node.name.startswith("test_")
    if words[0].lower().strip(",") in NOUN_STARTS and not is_value:
        return f"{node.name}: begins with {words[0]!r}, not with a verb"
    if len(words) > LONGEST_FIRST_SENTENCE:
        return f"{node.name}: the first sentence has {len(words)} words"
    return None


def packed_statements(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield statements that say several things at once."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) and len(node.generators) > 1:
            yield node.lineno, "a comprehension with two loops: write loops over named values"
        if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.IfExp):
            yield node.lineno, "a chain of conditional expressions: write if and elif"
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            names = {ast.unparse(each) for each in node.targets[0].elts}
            values = {ast.unparse(each) for each in node.value.elts}
            if len(values) > 1 and not names & values:
                yield node.lineno, "several assignments in one line: write one a line"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_comments_and_docstrings_use_plain_words(path: Path) -> None:
    if path == Path(__file__).resolve():
        return
    assert [f"line {line}: {word}" for line, text in comments_and_docstrings(path) for word in wrong_words(text)] == []


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_messages_use_plain_words(path: Path) -> None:
    assert [f"line {line}: {word}" for line, text in messages(path) for word in wrong_words(text)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_use_plain_words(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    lines = enumerate(text.splitlines(), 1)
    assert [f"line {number}: {word}" for number, line in lines for word in wrong_words(line)] == []


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_function_says_first_what_it_does(path: Path) -> None:
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    found = [(node.lineno, wrong_first_sentence(node)) for node in functions]
    assert [f"line {line}: {wrong}" for line, wrong in found if wrong] == []


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_statement_says_one_thing(path: Path) -> None:
    assert [f"line {line}: {wrong}" for line, wrong in packed_statements(ast.parse(path.read_text()))] == []

"""Tables as plain text and as HTML."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.report_table import ColumnHead, HtmlFields, ReportTable, list_properties, make_printable
from tests.kit.notebooks import tags_of_html, words_of_html

HEADS = (ColumnHead("partition"), ColumnHead("rows", right=True))


def test_text_is_as_wide_as_its_content_and_aligned() -> None:
    text = ReportTable("Files of trips", HEADS, [["berlin", "3"], ["東京", "1,400"]]).to_text()
    assert text.splitlines() == [
        "Files of trips",
        "partition   rows",
        "────────────────",
        "berlin         3",
        "東京       1,400",
    ]


def test_a_wide_cell_is_neither_wrapped_nor_cut() -> None:
    text = ReportTable("Files", HEADS, [["x" * 500, "3"]]).to_text()
    assert f"{'x' * 500}     3" in text


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_text_has_no_color_codes_even_where_colors_are_forced(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    assert "\x1b" not in ReportTable("Files", HEADS, [["berlin", "3"]]).to_text()


def test_html_shows_the_words_of_the_text_in_their_order() -> None:
    table = ReportTable("Files of trips\nsecond line", HEADS, [["berlin", "3"], ["tokyo", "4"]])
    words = [word for word in table.to_text().split() if set(word) != {"─"}]
    assert words_of_html(table.to_html()) == words


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;b&gt;"])
def test_names_are_shown_and_not_run(name: str) -> None:
    table = ReportTable(name, (ColumnHead(name), ColumnHead("rows")), [[name, "1"]])
    page = table.to_html()
    assert tags_of_html(page) == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert " ".join(words_of_html(page)) == f"{name} {name} rows {name} 1"
    assert " ".join(words_of_html(ReportTable(name, HEADS, []).to_html())) == f"{name}: none"


def test_html_has_no_colors_of_its_own_and_loads_nothing() -> None:
    page = ReportTable("Files", HEADS, [["berlin", "3"]]).to_html()
    assert "color:inherit" in page
    for part in ("#", "rgb", "background", "http", "src=", "url("):
        assert part not in page


def test_dollars_are_no_formulas() -> None:
    page = ReportTable("Files", HEADS, [["$a$", "3"]]).to_html()
    assert page.startswith('<table class="tex2jax_ignore mathjax_ignore">')


def test_characters_that_a_terminal_obeys_are_escaped() -> None:
    table = ReportTable("a\x1b[31m", HEADS, [["b\nc\x1b[0m", "\u202e3"]])
    assert table.to_text().splitlines()[0] == r"a\x1b[31m"
    assert r"b\nc\x1b[0m" in table.to_text()
    assert "\x1b" not in table.to_html()
    assert r"\u202e3" in table.to_html()
    assert make_printable("Zürich 東京 😀") == "Zürich 東京 😀"


def test_brackets_are_text_and_not_markup() -> None:
    assert "[red]x[/red]" in ReportTable("[b]", (ColumnHead("[b]"), ColumnHead("rows")), [["[red]x[/red]", "1"]]).to_text()


def test_a_table_without_rows_is_one_line() -> None:
    table = ReportTable("Files of trips", HEADS, [], if_empty="no file")
    assert table.to_text() == "Files of trips: no file"
    assert words_of_html(table.to_html()) == ["Files", "of", "trips:", "no", "file"]


def test_properties_have_no_line_of_titles() -> None:
    table = list_properties("Table", [("path", "/a"), ("type", "b")])
    assert table.to_text().splitlines() == ["Table", "path  /a", "type  b"]
    assert "thead" not in tags_of_html(table.to_html())


def test_a_dataclass_shows_its_fields() -> None:
    @dataclass(frozen=True)
    class Cleaned(HtmlFields):
        files_deleted: int
        names: tuple[str, ...]
        user: str | None = None

    done = Cleaned(1200, ("a", "<b>"))
    assert words_of_html(done._repr_html_()) == ["Cleaned", "files", "deleted", "1,200", "names", "a,", "<b>", "user"]
    assert repr(done).endswith("Cleaned(files_deleted=1200, names=('a', '<b>'), user=None)")

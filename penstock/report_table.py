"""`ReportTable`: rows of text cells for the user, rendered as plain text, as HTML for notebooks, or by the library rich.

All results that print as tables are rendered here. Names of partitions, columns and keys are data: HTML is escaped, and
characters that a terminal would obey, such as the escape character, are written as `\\x1b`. The HTML names no color and no
resource, so that it fits light and dark notebooks. This module imports rich only when a table is printed: workers import this
module, and need not have rich.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table as RichTable

#: Notebooks typeset `$...$` as formulas, except inside elements of these classes.
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
_CAPTION_STYLE = "caption-side:top;text-align:left;color:inherit;font-weight:bold;padding:0 0 0.4em 0;white-space:pre-wrap"
_LEFT_STYLE = "text-align:left;vertical-align:top;white-space:pre-wrap"
_RIGHT_STYLE = "text-align:right;vertical-align:top;white-space:pre"


class ColumnHead(NamedTuple):
    """The head of a column: its title, and whether the column is aligned right."""

    title: str
    right: bool = False


@dataclass(frozen=True)
class ReportTable:
    """Rows of text cells under column titles, with a heading of one or more lines above them.

    A table without rows is only its heading, followed by `if_empty`. If no column has a title, there is no line of titles.
    """

    heading: str
    columns: Sequence[ColumnHead]
    rows: Sequence[Sequence[str]]
    if_empty: str = "none"

    def to_text(self) -> str:
        """Return the `ReportTable` as plain text, as wide as its content and without color codes."""
        from rich.console import Console
        from rich.measure import Measurement

        if not self.rows:
            return self._to_line()
        # In the kernel of a notebook, and under FORCE_COLOR, rich would color the text and display it by itself.
        console = Console(file=StringIO(), width=10_000, force_jupyter=False, force_terminal=False, color_system=None)
        table = self.to_rich()
        table.title = None
        width = Measurement.get(console, console.options, table).maximum
        with console.capture() as captured:
            console.print(table, width=width)
        lines = [*self._heading_lines(), *captured.get().splitlines()]
        return "\n".join(line.rstrip() for line in lines)

    def to_html(self) -> str:
        """Return the `ReportTable` as HTML, for notebooks."""
        if not self.rows:
            return f'<div class="{_NO_FORMULAS}">{html.escape(self._to_line())}</div>'
        caption = html.escape("\n".join(self._heading_lines()))
        parts = [f'<table class="{_NO_FORMULAS}">']
        if caption:
            parts.append(f'<caption style="{_CAPTION_STYLE}">{caption}</caption>')
        if self._has_titles:
            titles = [column.title for column in self.columns]
            parts.append(f"<thead>{self._format_html_row('th', titles)}</thead>")
        parts.append("<tbody>")
        for row in self.rows:
            parts.append(self._format_html_row("td", row))
        parts.append("</tbody></table>")
        return "".join(parts)

    def to_rich(self) -> RichTable:
        """Return the `ReportTable` as a table of the library rich, for a terminal."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text("\n".join(self._heading_lines())),
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_header=self._has_titles,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for column in self.columns:
            title = Text(make_printable(column.title))
            table.add_column(title, justify="right" if column.right else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(make_printable(cell)) for cell in row))
        return table

    @property
    def _has_titles(self) -> bool:
        """Whether a column has a title."""
        return any(column.title for column in self.columns)

    def _heading_lines(self) -> list[str]:
        """Return the lines of the heading."""
        return [make_printable(line) for line in self.heading.splitlines()]

    def _to_line(self) -> str:
        """Return the heading followed by `if_empty`, for a `ReportTable` without rows."""
        heading = "\n".join(self._heading_lines())
        return f"{heading}: {self.if_empty}"

    def _format_html_row(self, tag: str, cells: Sequence[str]) -> str:
        """Return one row of the table as HTML.

        Args:
            tag: `th` for the line of titles, `td` for others.
        """
        parts = []
        for column, cell in zip(self.columns, cells, strict=True):
            style = _RIGHT_STYLE if column.right else _LEFT_STYLE
            parts.append(f'<{tag} style="{style}">{html.escape(make_printable(cell))}</{tag}>')
        return f"<tr>{''.join(parts)}</tr>"


class HtmlFields:
    """Base class of dataclasses that notebooks show as a table with one line per field. `repr` stays that of the dataclass."""

    def _repr_html_(self) -> str:
        """Return the fields and their values as an HTML table, for notebooks."""
        rows = []
        for field in fields(self):  # type: ignore[arg-type]  # the subclasses are dataclasses
            rows.append((field.name.replace("_", " "), _format_value(getattr(self, field.name))))
        return list_properties(type(self).__name__, rows).to_html()


def list_properties(heading: str, properties: Sequence[tuple[str, str]]) -> ReportTable:
    """Return a `ReportTable` with two columns, name and value, and no column titles."""
    return ReportTable(heading, (ColumnHead(""), ColumnHead("")), properties)


def make_printable(text: str) -> str:
    """Return a text with its control characters and other unprintable characters written as escapes, such as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _format_value(value: Any) -> str:
    """Return the value of a field as text; an empty string for None."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return str(value)

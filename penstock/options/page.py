"""Renders the page `docs/options.md` from the catalogue. `scripts/render_options.py` writes the page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.options.catalogue import AREAS, CATALOGUE, Area
from penstock.options.option import GIB, KIB, MIB, Option, boolean, describe_form, to_raw

_INTRODUCTION: Final = """\
# Options

This page is generated from the catalogue in `penstock/options`; `python scripts/render_options.py` writes it.

Set options with `df.write.option(...)` and `spark.read.option(...)`. Keys may have any case. A value of a wrong form is an
error that says what is expected. A key that is not on this page has no effect. An `UnknownOptionWarning` says so, at your line,
and names the nearest key. Keys that begin with `_` are stored in the commit, as in Hudi. Defaults are those of Hudi 0.15. Where
Hudi infers a value, the default is none and the description says what decides.

| status | meaning |
| --- | --- |
| yes | all values are supported |
| only … | these values are supported; any other is refused with `Unsupported`, before anything is read or written |
| refused | not supported; setting the option is an error that says what to do instead |
| idle | belongs to a feature that Penstock does not have yet, and whose own switch is refused; accepted, without effect |
| no effect | tunes a part of the JVM engine that Penstock does not have; accepted, the rows are the same with any value |
| used if … | has its effect with that value of another option; otherwise accepted without effect, with one warning per session |
| … if …; otherwise no effect, warns | other values are refused if another option has that value, and else warn once |
| no effect, warns | changes no rows; accepted with one warning per session, if the value is not the default |
"""


def render_markdown() -> str:
    """Return the page `docs/options.md` as Markdown: an introduction, then one table per area."""
    return "\n".join([_INTRODUCTION, *(_render_area(area) for area in AREAS)])


def _render_area(area: Area) -> str:
    """Return the heading and the table of one area, as Markdown."""
    lines = [f"## {area.title}", ""]
    lines += ["| option | default | values | what it does | status |", "| --- | --- | --- | --- | --- |"]
    lines += [_render_row(_cells(option)) for option in area.options]
    lines += [_render_row((f"`{family.prefix}*`", "", "", family.doc, family.status)) for family in area.families]
    return "\n".join(lines) + "\n"


def _render_row(cells: Iterable[str]) -> str:
    """Return one row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cells(option: Option[Any]) -> tuple[str, ...]:
    """Return the cells of an option's row: key and aliases, default, values, description, status."""
    also = "".join(f"<br>also `{alias}`" for alias in option.aliases)
    values = ", ".join(f"`{value}`" for value in option.allowed) if option.allowed else describe_form(option.parse)
    return f"`{option.key}`{also}", _format_default(option), values, option.doc, status(option)


def _format_default(option: Option[Any]) -> str:
    """Return the default of an option for the page's column "default"."""
    if option.default is None or option.default == ():
        return "none"
    if option.default == "":
        return "empty"
    size = _format_size(option.default) if option.allowed is None else ""
    return f"`{option.default_raw}`{size}"


def _format_size(value: object) -> str:
    """Return a default as a size, such as " (100 MiB)", if it is a whole number of KiB, MiB or GiB; otherwise ""."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 64 * KIB:
        return ""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if value % unit == 0:
            return f" ({value // unit} {name})"
    return ""


def status(option: Option[Any]) -> str:
    """Return how far Penstock supports an option, as the page's column "status" shows it."""
    if option.accepted:
        return "no effect"
    if option.waits_for:
        return f"idle: {option.waits_for}"
    if option.supported is None:
        return "yes"
    if option.ignored and option.used_if:
        return f"used if `{option.used_if[0]}={option.used_if[1]}`; otherwise no effect, warns: {option.ignored}"
    if option.ignored:
        return f"no effect, warns: {option.ignored}"
    text = "only " + ", ".join(f"`{value}`" for value in option.supported) if any(option.supported) else "refused"
    if not option.refused_if:
        return text
    conditions = " or ".join(f"`{key}={value}`" for key, value in option.refused_if)
    return f"{text}, if {conditions}; otherwise no effect, warns"


def render_missing() -> str:
    """Return the README's table of the features that Penstock lacks, with the options that are refused, as Markdown."""
    refused: dict[str, list[str]] = {}
    for option in CATALOGUE.values():
        if option.lacks:
            refused.setdefault(option.lacks, []).append(_refused_values(option))
        elif option.waits_for:
            refused.setdefault(option.waits_for, [])
    lines = ["| not yet | an error |", "| --- | --- |"]
    for feature in sorted(refused, key=str.lower):
        lines.append(_render_row((feature, ", ".join(refused[feature]) or "none; its options have no effect")))
    return "\n".join(lines)


def _refused_values(option: Option[Any]) -> str:
    """Return an option with its refused values for the README, such as `key=true`.

    If the refused values cannot be listed, return `key=…`; if every value is refused, return only the key.
    """
    if option.parse is boolean and option.default is not None:
        return f"`{option.key}={to_raw(not option.default)}`"
    if option.allowed:
        first, *others = [value for value in option.allowed if not option.supports(value)]
        return ", ".join([f"`{option.key}={first}`", *(f"`{value}`" for value in others)])
    return f"`{option.key}=…`" if any(option.supported or ()) else f"`{option.key}`"

"""Draws the two pictures of docs/architecture.md: the layers, from the list of the layer test, and the way of an upsert.

`make docs` writes them; a test compares the files with what this script would draw.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.unit.test_layers import LAYERS  # noqa: E402

WIDTH = 980
FONT = 'font-family="ui-sans-serif, Helvetica, Arial, sans-serif"'
DARK = "#1f2933"
GREY = "#52606d"

#: What each part of a layer holds. The layer test's own list decides which parts there are, and in which order.
PARTS = {
    "api": "penstock.Table",
    "spark": 'format("hudi")',
    "cli": "program penstock",
    "bundle": "zip for executors",
    "testing": "laws of mergers",
    "streams": "sink and source of Spark's streams",
    "door": "opens a write, a query, a service",
    "write": "rows, locate, tasks, publish",
    "read": "query, plan, scan",
    "services": "compaction, clustering, clean, …",
    "commit": "requested, inflight, completed",
    "index": "where a key lives",
    "hooks": "before and after a commit",
    "sync": "tables in Hive and Glue",
    "table": "properties, timeline, slices",
    "filegroup": "base files, logs, markers",
    "timeline": "instants and their files",
    "workers": "run kernels in workers",
    "storage": "the only one that opens files",
    "columns": "Spark casts",
    "keys": "record key, partition path",
    "merge": "payloads and mergers",
    "formats": "Parquet, Avro, log blocks",
    "options": "the catalogue",
    "schema": "Avro, Arrow, Spark",
    "progress": "stages, shown",
    "registered": "functions of users by name",
    "hive_metastore": "a Thrift client",
    "error_text": "errors as text",
    "package_zip": "zip of the package",
    "report_table": "text and HTML",
    "load_part": "classes by name",
    "errors": "the typed errors",
    "clock": "time, ids",
    "process": "who is alive",
    "interrupt": "Ctrl-C",
    "user_warning": "points at the caller",
}
COLOURS = ("#e3f8ff", "#d3f9d8", "#fff3bf", "#ffe8cc", "#f3f0ff", "#f1f3f5")


@dataclass(frozen=True)
class Step:
    """One stop on the way of an upsert."""

    module: str
    text: str
    #: Where it runs: on the driver, or in Spark's workers.
    in_workers: bool = False


UPSERT = (
    Step("door/write", "check options and save mode, open or create the table, roll back failed writes"),
    Step("write/operations", "upsert: the list of stages"),
    Step("commit/begin", "take an instant: <instant>.commit.requested"),
    Step("write/rows", "fit the schema, add record key and partition path, stage each row once as Arrow IPC", in_workers=True),
    Step("write/locate", "ask the index for the keys, assign new rows to small files and new file groups"),
    Step("commit/change", "inflight: the workload profile"),
    Step("write/tasks", "merge each base file, or append to its log; a marker before each file", in_workers=True),
    Step("write/publish", "update the index, collect write stats"),
    Step("hooks", "before the commit: may still say no"),
    Step("commit/change", "check conflicts, remove files of lost attempts, create <instant>.commit"),
    Step("hooks", "after the commit"),
    Step("door/follow_ups", "clean, archive, compact, cluster, as the options say"),
)


def draw_layers() -> str:
    """Return the picture of the layers: a row for each, upper layers first."""
    row_height, gap, left, top = 46, 8, 20, 54
    height = top + len(LAYERS) * (row_height + gap) + 40
    shapes = [
        text(left, 26, "Who may import whom", size=18, weight="bold"),
        text(left, 44, "A part imports from the layers below its own. Parts of one layer do not import each other.", colour=GREY),
    ]
    for number, layer in enumerate(LAYERS):
        parts = sorted(layer, key=list(PARTS).index)
        y = top + number * (row_height + gap)
        box_width = (WIDTH - 2 * left - gap * (len(parts) - 1)) / len(parts)
        for place, part in enumerate(parts):
            x = left + place * (box_width + gap)
            shapes.append(box(x, y, box_width, row_height, COLOURS[number % len(COLOURS)]))
            shapes.append(text(x + box_width / 2, y + 19, part, weight="bold", anchor="middle"))
            shapes.append(text(x + box_width / 2, y + 36, PARTS[part], size=11, colour=GREY, anchor="middle"))
    return picture(height, "The layers of Penstock", shapes)


def draw_upsert() -> str:
    """Return the picture of an upsert's way: one row for each stop, with the place where it runs."""
    row_height, gap, left, top = 40, 12, 20, 70
    height = top + len(UPSERT) * (row_height + gap) + 10
    shapes = [
        text(left, 26, "The way of an upsert", size=18, weight="bold"),
        box(left, 38, 14, 14, COLOURS[0]),
        text(left + 20, 50, "on the driver", colour=GREY),
        box(left + 130, 38, 14, 14, COLOURS[2]),
        text(left + 150, 50, "in Spark's workers, or on the driver when the batch is small", colour=GREY),
    ]
    for number, step in enumerate(UPSERT):
        y = top + number * (row_height + gap)
        shapes.append(box(left, y, WIDTH - 2 * left, row_height, COLOURS[2] if step.in_workers else COLOURS[0]))
        shapes.append(text(left + 14, y + 25, f"{number + 1}. {step.module}", weight="bold"))
        shapes.append(text(left + 210, y + 25, step.text))
        if number:
            middle = left + 60
            shapes.append(f'<path d="M{middle} {y - gap + 1} v{gap - 5} m-4 -4 l4 4 l4 -4" stroke="{GREY}" fill="none"/>')
    return picture(height, "The way of an upsert through Penstock", shapes)


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Return a rounded box."""
    size = f'width="{width:.1f}" height="{height}"'
    return f'<rect x="{x:.1f}" y="{y}" {size} rx="5" fill="{colour}" stroke="#9aa5b1"/>'


def text(
    x: float, y: float, words: str, *, size: int = 13, weight: str = "normal", colour: str = DARK, anchor: str = "start"
) -> str:
    """Return a line of text."""
    place = f'x="{x:.1f}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" {FONT}>{escape(words)}</text>'


def picture(height: int, title: str, shapes: list[str]) -> str:
    """Return a whole SVG file. Its background is white, so that it reads in dark pages too."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    background = f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", background, *shapes, "</svg>"]) + "\n"


#: Files below the project's root, and what draws them.
PICTURES = {"docs/layers.svg": draw_layers, "docs/upsert.svg": draw_upsert}


def main() -> None:
    """Write the pictures."""
    for name, draw in PICTURES.items():
        (ROOT / name).write_text(draw())
        print(f"wrote {name}")


if __name__ == "__main__":
    main()

"""Plots as SVG files: speed and memory of the engines, and growth curves. The only place that knows matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "penstock"  # the same figures make the same bytes
matplotlib.rcParams["svg.fonttype"] = "none"

from matplotlib import pyplot as plt  # noqa: E402

from bench.engines import ENGINES  # noqa: E402
from bench.workload import GOALS, IDS, TITLES  # noqa: E402

_METADATA = {"Date": None, "Creator": None}


def plot_results(results: Mapping[str, Mapping[str, Any]], folder: Path) -> list[str]:
    """Plot speed, CPU and memory. Return the files' names."""
    _dots(results, folder / "speed.svg", "s", "limit", "seconds over the limit's (left is faster; | is our goal)")
    _dots(results, folder / "cpu.svg", "cpu", "limit", "CPU seconds over the limit's")
    _dots(results, folder / "memory.svg", "rss_mb", None, "peak resident memory of the process tree, MB")
    return ["speed.svg", "cpu.svg", "memory.svg"]


def _dots(results: Mapping[str, Mapping[str, Any]], file: Path, key: str, base: str | None, label: str) -> None:
    """Plot one line per step and one dot per engine, on a logarithmic axis."""
    engines = [e for e in ENGINES if e in results]
    steps = [s for s in IDS if any(_value(results, e, s, key, base) for e in engines)]
    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.32 * len(steps)))
    for engine in engines:
        points = [(v, at) for at, s in enumerate(steps) if (v := _value(results, engine, s, key, base))]
        if points:
            axes.scatter(*zip(*points, strict=True), color=ENGINES[engine].colour, label=engine, s=34, zorder=3, alpha=0.9)
    if key == "s":
        wanted = [(GOALS[s], at) for at, s in enumerate(steps) if s in GOALS]
        if wanted:
            axes.scatter(*zip(*wanted, strict=True), marker="|", color="black", s=160, zorder=2, label="goal")
    axes.set_xscale("log")
    axes.set_yticks(range(len(steps)), [f"{s}  {TITLES[s]}" for s in steps], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(axis="both", color="#dddddd", zorder=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.1), ncol=6, fontsize=8, frameon=False)
    figure.savefig(file, bbox_inches="tight", metadata=_METADATA)
    plt.close(figure)


def _value(results: Mapping[str, Mapping[str, Any]], engine: str, step: str, key: str, base: str | None) -> float | None:
    mine = results.get(engine, {}).get(step, {})
    if mine.get("status") != "ok" or not mine.get(key):
        return None
    if base is None or base not in results:
        return float(mine[key])
    its = results[base].get(step, {})
    return float(mine[key]) / its[key] if its.get("status") == "ok" and its.get(key) else None


def plot_growth(axis: str, label: str, curves: Mapping[str, Sequence[tuple[float, float]]], file: Path) -> None:
    """Plot seconds against size, one line per curve, both axes logarithmic: a straight line of slope 1 is proportional."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for name, points in curves.items():
        engine = name.split()[0]
        style = "-" if name == engine else "--"
        axes.plot(*zip(*points, strict=True), style, marker="o", color=ENGINES[engine].colour, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("seconds")
    axes.set_title(f"time against {axis}")
    axes.grid(color="#dddddd", which="both", linewidth=0.5)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(file, bbox_inches="tight", metadata=_METADATA)
    plt.close(figure)

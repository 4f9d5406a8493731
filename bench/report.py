"""Makes results.json, results.md and, when published, a page with plots from raw.jsonl and conditions.json of a folder.

    python -m bench.report OUT [FOLDER [PAGE]]

A cell is the median over all rounds. A wrong answer or an error is shown by its name and never as a time.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.engines import ENGINES
from bench.workload import GOALS, IDS, STEPS, TITLES

Cell = dict[str, Any]
Results = dict[str, dict[str, Cell]]

#: The share of the machine from which other processes disturb a step: its cell is marked.
NOISY = 0.10
#: Pages next to the published one that it links to, if they exist.
PAGES = {
    "shapes.md": "Tables of 1,000 columns and of 5,000 partitions",
    "notes.md": "What the figures say: where a goal is missed, and why",
    "growth.md": "How time grows with batch, table, file groups, columns and commits",
    "profile.md": "Where the time of an upsert goes",
}
OURS = ("penstock", "penstock43")
BASES = ("hudi015", "limit")
_PEAKS = ("rss_mb", "rss_driver_mb", "rss_jvm_mb", "rss_worker_mb", "others_cpu")
_MEDIANS = ("s", "cpu", "cpu_driver", "cpu_jvm", "cpu_worker", "read_mb", "write_mb", "disk_read_mb", "disk_write_mb",
            "disk_mb", "added_mb", "amplification", "files")  # fmt: skip


def read_raw(out: str | Path) -> list[dict[str, Any]]:
    """Return all records of the last run of every step by every engine: engines and tables may be measured one by one."""
    records = [json.loads(line) for line in Path(out, "raw.jsonl").read_text().splitlines()]
    last = {(r["engine"], r["step"]): r["started"] for r in records}
    return [r for r in records if r["started"] == last[r["engine"], r["step"]]]


def collect(records: Iterable[Mapping[str, Any]]) -> Results:
    """Return the cells by engine and step."""
    samples: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for r in records:
        if r["run"].startswith("r"):
            samples.setdefault(r["engine"], {}).setdefault(r["step"], []).append(r)
    return {engine: {step: cell(rs) for step, rs in steps.items()} for engine, steps in samples.items()}


def cell(records: Sequence[Mapping[str, Any]]) -> Cell:
    """Return one figure of each kind from all samples of a step, or the status of a sample that is wrong or failed."""
    bad = [r for r in records if r["status"] != "ok"]
    if bad:
        return {"status": bad[0]["status"], "detail": bad[0].get("detail")}
    found: Cell = {"status": "ok", "samples": [r["s"] for r in records]}
    for key in _MEDIANS:
        if all(key in r for r in records):
            found[key] = round(statistics.median(r[key] for r in records), 3)
    for key in _PEAKS:
        if any(key in r for r in records):
            found[key] = max(r.get(key, 0) for r in records)
    found["spread"] = round((max(found["samples"]) - min(found["samples"])) / found["s"], 3) if found["s"] else 0.0
    return found


def noisy(c: Cell, cores: int) -> bool:
    """Whether other processes used much of the machine in the worst sample."""
    return bool(c["others_cpu"] > NOISY * cores * c["s"] + 0.1)


def ratio(results: Results, engine: str, base: str, step: str, key: str = "s") -> float | None:
    """Return the figure of one engine divided by that of another."""
    mine, its = (results.get(e, {}).get(step, {}) for e in (engine, base))
    return mine[key] / its[key] if mine.get("status") == its.get("status") == "ok" and its.get(key, 0) > 0 else None


def engines_of(results: Results) -> list[str]:
    """Return the engines that ran, in the usual order."""
    return [e for e in ENGINES if e in results]


def number(value: float) -> str:
    """Return a number with about three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(results: Results, heading: str, write_cell: Callable[[str, str, Cell], str]) -> str:
    """Return a table with one line per step and one column per engine."""
    engines = engines_of(results)
    lines = [f"| | workload ({heading}) | " + " | ".join(engines) + " |", "|---|---|" + "---:|" * len(engines)]
    for step in IDS:
        if not any(step in results[e] for e in engines):
            continue
        cells = [results[e].get(step, {"status": "not run"}) for e in engines]
        texts = [write_cell(e, step, c) if c["status"] == "ok" else c["status"] for e, c in zip(engines, cells, strict=True)]
        lines.append(f"| {step} | {TITLES[step]} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def figures(results: Results, heading: str, *keys: str) -> str:
    """Return a table of plain figures, several to a cell."""
    return table(results, heading, lambda e, step, c: " / ".join(number(c[k]) if k in c else "·" for k in keys))


def ratios(results: Results, conditions: Mapping[str, Any], heading: str, key: str) -> str:
    """Return a table of figures with their ratios to the bases."""

    def write_cell(engine: str, step: str, c: Cell) -> str:
        text = number(c[key]) + ("~" if key == "s" and noisy(c, conditions["cores"]) else "")
        found = (ratio(results, engine, base, step, key) for base in BASES if base in results)
        return text + "".join(" · -" if r is None else f" · {number(r)}" for r in found)

    return table(results, heading, write_cell)


def other_goals(results: Results) -> str:
    """Return the table of goals for memory and bytes, compared with Hudi's."""
    engines = [e for e in OURS if e in results]
    lines = [f"| over hudi015's | goal | {' | '.join(engines)} |", "|---|---:|" + "---:|" * len(engines)]
    asked = {"greatest peak memory of any step": 0.5, "bytes on disk after the last write to a table, all tables": 1.0}
    for (what, goal), found in zip(asked.items(), (peak_ratio, bytes_ratio), strict=True):
        values = [found(results, e) for e in engines]
        texts = ["" if v is None else f"**{v:.3f}**" if v <= goal else f"{v:.3f} missed" for v in values]
        lines.append(f"| {what} | {goal} | {' | '.join(texts)} |")
    return "\n".join(lines)


def peak_ratio(results: Results, engine: str) -> float | None:
    """Return the greatest peak of memory in the steps that both ran, divided by Hudi's."""
    both = [s for s in IDS if ratio(results, engine, "hudi015", s, "rss_mb")]
    mine, its = (max((results[e][s]["rss_mb"] for s in both), default=0) for e in (engine, "hudi015"))
    return mine / its if its else None


def bytes_ratio(results: Results, engine: str) -> float | None:
    """Return the bytes of all tables after their last write, divided by Hudi's."""
    last = {step.table: step.id for step in STEPS if step.writes and ratio(results, engine, "hudi015", step.id, "disk_mb")}
    mine, its = (sum(results[e][s]["disk_mb"] for s in last.values()) for e in (engine, "hudi015"))
    return mine / its if its else None


def goals(results: Results) -> str:
    """Return the table of goals for time, with the times divided by the limit's."""
    ours = [e for e in OURS if e in results]
    others = [e for e in engines_of(results) if e not in ("limit", *ours)]
    lines = [
        f"| | workload (s over the limit's) | goal | {' | '.join([*ours, *others])} |",
        "|---|---|" + "---:|" * (1 + len(ours + others)),
    ]
    for step, goal in GOALS.items():
        cells = []
        for engine in [*ours, *others]:
            r, known = ratio(results, engine, "limit", step), results[engine].get(step)
            text = number(r) if r is not None else known["status"] if known and known["status"] != "ok" else ""
            if r is not None and engine in ours:
                text = f"**{text}**" if r <= goal else f"{text} missed"
            cells.append(text)
        if any(cells):
            lines.append(f"| {step} | {TITLES[step]} | {goal} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def mean_ratios(results: Results, base: str, key: str, on_all: Sequence[str]) -> str:
    """Return geometric means over these steps, of the engines that have all of them."""
    parts = []
    for engine in engines_of(results):
        each = [r for r in (ratio(results, engine, base, step, key) for step in on_all) if r]
        if len(each) == len(on_all):
            parts.append(f"{engine} {statistics.geometric_mean(each):.2f}")
    return ", ".join(parts)


def common_steps(results: Results) -> list[str]:
    """Return the steps with a goal that all engines have which ran more than half of such steps."""
    ran = {e: [s for s in GOALS if results[e].get(s, {}).get("status") == "ok"] for e in engines_of(results)}
    most = [steps for steps in ran.values() if len(steps) > len(GOALS) / 2]
    return [s for s in GOALS if most and all(s in steps for steps in most)]


def peaks(results: Results) -> str:
    """Return the greatest peak of memory of each engine in any step."""
    found = {e: max((c.get("rss_mb", 0) for c in results[e].values()), default=0) for e in engines_of(results)}
    return ", ".join(f"{engine} {most}" for engine, most in found.items())


def problems(results: Results) -> str:
    """Return a line for each step that was wrong or failed, and why a step is missing."""
    lines = []
    for engine in engines_of(results):
        reported = set()
        for step, c in results[engine].items():
            detail = (c.get("detail") or "").replace("\n", " ")[:300]
            if c["status"] != "ok" and detail and not detail.startswith("NotImplementedError") and detail not in reported:
                reported.add(detail)
                lines.append(f"- {engine} {step}: {c['status']} {detail}")
    return "\n".join(lines)


def write(out: str) -> None:
    """Write results.json and results.md of a folder."""
    if not Path(out, "raw.jsonl").exists():
        return
    records, conditions = read_raw(out), json.loads(Path(out, "conditions.json").read_text())
    results = collect(records)
    versions = {r["engine"]: r["versions"] for r in records if r["step"] == "start"}
    content = {"conditions": conditions, "versions": versions, "results": results}
    content |= {"measured": measured(records), "left_out": left_out(records)}
    Path(out, "results.json").write_text(json.dumps(content, indent=1))
    Path(out, "results.md").write_text(page(results, conditions, versions, content))


def measured(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return how many rounds each engine ran, and when they began."""
    found: dict[str, dict[str, set[int]]] = {}
    for r in records:
        if r["run"].startswith("r"):
            found.setdefault(r["engine"], {}).setdefault(r["started"], set()).add(r["round"])
    return {
        engine: ", ".join(
            f"{len(rounds)} {'round' if len(rounds) == 1 else 'rounds'} from {start}" for start, rounds in its.items()
        )
        for engine, its in found.items()
    }


def left_out(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the engines that were skipped or did not finish, and why."""
    return [f"{r['engine']}: {r['status']}, {r['detail']}" for r in records if r["run"] == "none"]


def its_versions(engine: str, versions: Mapping[str, str]) -> str:
    """Return the versions that matter to an engine, of all that its environment has."""
    own = {"deltars": "deltalake", "pyiceberg": "pyiceberg"}
    spark = ("pyspark", "java") if ENGINES[engine].kind.startswith("on_spark") else ()
    names = ("python", *spark, "pyarrow", own.get(engine, "penstock" if engine.startswith("penstock") else ""))
    return ", ".join(f"{name} {versions[name]}" for name in names if name in versions)


def page(
    results: Results,
    conditions: Mapping[str, Any],
    versions: Mapping[str, Any],
    runs: Mapping[str, Any] | None = None,
    plots: Sequence[str] = (),
) -> str:
    """Return the page as Markdown.

    Args:
        runs: under `measured` how often each engine ran, and under `left_out` the engines that did not run.
    """
    facts = "\n".join(f"- {k.replace('_', ' ')}: {v}" for k, v in conditions.items() if k != "rounds")
    times: Mapping[str, str] = (runs or {}).get("measured", {})
    engines = "\n".join(
        f"- `{e}`: {ENGINES[e].about} ({its_versions(e, versions.get(e, {}))}; {times.get(e, 'once')})"
        for e in engines_of(results)
    )
    on_all = common_steps(results)
    parts = [
        "# Benchmark",
        "One workload, one input, one machine. Every answer is checked against one that no engine computed. "
        "`python -m bench` (`make bench`, `make bench-full`) writes this page; `bench/README.md` has the rules.",
        facts,
        engines,
        *(f"![{name}]({name})" for name in plots),
        *(["## Goals", "Times divided by the limit's. **Bold**: the goal is met.", goals(results)] if "limit" in results else []),
        *([other_goals(results)] if "hudi015" in results else []),
        "## Time",
        f"Seconds, then the ratio to {' and to '.join(b for b in BASES if b in results) or 'nothing'} (below 1 is faster). "
        f"`~`: other processes took more than {NOISY:.0%} of the machine during the step. "
        "`-`: the engine has no equivalent, or not yet. `not run`: the engine was measured on other steps only.",
        ratios(results, conditions, "s" + "".join(f" · ×{b}" for b in BASES if b in results), "s"),
        *(
            f"Geometric mean of the {what} ratios to {base} over {', '.join(on_all)}: {mean_ratios(results, base, key, on_all)}."
            for base in BASES
            if base in results and on_all
            for what, key in (("time", "s"), ("CPU", "cpu"))
        ),
        *_spread(results),
        "## CPU",
        "CPU seconds of the process tree. Other load on the machine changes them less than the time:",
        ratios(results, conditions, "CPU s" + "".join(f" · ×{b}" for b in BASES if b in results), "cpu"),
        "## Memory",
        "Peak resident memory of the process tree, in MB: all / JVM / Python workers. Mapped files and shared pages count in "
        "every process. The heap of a JVM grows up to its limit, whether the work needs it or not.",
        f"Greatest peak of any step, in MB: {peaks(results)}.",
        figures(results, "MB", "rss_mb", "rss_jvm_mb", "rss_worker_mb"),
        "## Bytes",
        "Size of the table on disk after the step, old versions included, in MB / bytes that the step added, in MB / write "
        "amplification, which is the bytes added divided by the size of the batch:",
        figures(results, "MB / MB / ×", "disk_mb", "added_mb", "amplification"),
        "MB through read calls / through write calls of the process tree (files and pipes, without mapped files) / "
        "written to disk:",
        figures(results, "MB", "read_mb", "write_mb", "disk_write_mb"),
    ]
    details = "\n".join(filter(None, [*(f"- {one}" for one in (runs or {}).get("left_out", ())), problems(results)]))
    return "\n\n".join([*parts, *(["## Wrong, failed or skipped", details] if details else [])]) + "\n"


def _spread(results: Results) -> list[str]:
    """Return a table of the differences between the samples of each step, if there are several samples."""
    if not any(len(c.get("samples", ())) > 1 for steps in results.values() for c in steps.values()):
        return []

    def write_cell(engine: str, step: str, c: Cell) -> str:
        low, high = min(c["samples"]), max(c["samples"])
        return f"{number(low)}-{number(high)} ({c['spread']:.0%})" if len(c["samples"]) > 1 else ""

    return ["Least and greatest sample, and their difference as a share of the median:", table(results, "s", write_cell)]


def publish_page(out: str, folder: str, name: str) -> None:
    """Write some steps as a page of their own, without plots, with its figures as JSON next to it.

    The main page, which may be of another day and size, stays as it is, and gets a link.
    """
    write(out)
    target, content = Path(folder), json.loads(Path(out, "results.json").read_text())
    text = page(content["results"], content["conditions"], content["versions"], content)
    (target / f"{name}.md").write_text(text.replace("# Benchmark", f"# {PAGES[f'{name}.md']}", 1))
    shutil.copy(Path(out, "results.json"), target / f"{name}.json")
    main = target / "README.md"
    link = f"[{PAGES[f'{name}.md']}]({name}.md)"
    if main.exists() and link not in main.read_text():
        main.write_text(f"{main.read_text()}\n{link}\n")
    print(f"page written to {target / name}.md", flush=True)


def publish(out: str, folder: str) -> None:
    """Write the page with plots, and its figures as JSON next to it. The page links to the other pages that exist."""
    from bench.plots import plot_results

    write(out)
    target, content = Path(folder), json.loads(Path(out, "results.json").read_text())
    target.mkdir(parents=True, exist_ok=True)
    names = plot_results(content["results"], target)
    shutil.copy(Path(out, "results.json"), target / "results.json")
    text = page(content["results"], content["conditions"], content["versions"], content, names)
    for name, about in PAGES.items():
        text += f"\n[{about}]({name})\n" if (target / name).exists() else ""
    (target / "README.md").write_text(text)
    print(f"page written to {target}", flush=True)


if __name__ == "__main__":
    write(sys.argv[1])
    if len(sys.argv) > 3:
        publish_page(*sys.argv[1:4])
    elif len(sys.argv) > 2:
        publish(*sys.argv[1:3])

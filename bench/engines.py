"""The engines by name: which environment each runs in, and how it is opened there. A new engine is one line here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from bench.workload import Engine

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class EngineSpec:
    """An engine: `<module>:<class>`, run by the Python of an environment."""

    name: str
    kind: str
    environment: str
    about: str
    #: In plots.
    colour: str
    #: Larger inputs would take hours.
    rows_max: int | None = None

    @property
    def python(self) -> Path:
        """The interpreter of the engine's environment."""
        return ROOT / self.environment / "bin" / "python"


NEWEST, SPARK35, BENCH = ".venv", ".venv-spark35", ".venv-bench"
ENGINES = {
    spec.name: spec
    for spec in (
        EngineSpec("limit", "on_arrow:Limit", BENCH, "two bare pyarrow processes, the same byte work, no engine", "#888888"),
        EngineSpec("penstock", "on_spark:Penstock", BENCH, "Penstock on PySpark 3.5", "#0b6e4f"),
        EngineSpec("penstock43", "on_spark:Penstock", NEWEST, "Penstock on the newest PySpark", "#21c58f"),
        EngineSpec("penstockjvm", "on_spark:PenstockThroughJvm", NEWEST, "the same, every row through the JVM", "#a5d8c3"),
        EngineSpec("hudi015", "on_spark:Hudi015", SPARK35, "Apache Hudi 0.15.0", "#d1495b"),
        EngineSpec("hudi015plain", "on_spark:Hudi015Plain", SPARK35, "Apache Hudi 0.15.0 without its metadata table", "#a63446"),
        EngineSpec("hudi12", "on_spark:Hudi12", SPARK35, "Apache Hudi 1.2.0", "#e98a97"),
        EngineSpec("hudi12v6", "on_spark:Hudi12V6", SPARK35, "Apache Hudi 1.2.0 writing table version 6", "#f3c1c8"),
        EngineSpec("delta", "on_spark:Delta", SPARK35, "Delta Lake 3.3.2 on Spark, MERGE", "#00798c"),
        EngineSpec("iceberg", "on_spark:Iceberg", SPARK35, "Apache Iceberg 1.10.0 on Spark, MERGE INTO", "#3d5a99"),
        EngineSpec("deltars", "on_arrow:DeltaRs", BENCH, "delta-rs, one node", "#66c5d6"),
        EngineSpec("pyiceberg", "on_arrow:PyIceberg", BENCH, "pyiceberg, one node", "#9bb3e0", rows_max=200_000),
    )
}


def open_engine(name: str, root: str, codec: str) -> Engine:
    """Start an engine in this process, which must be one of its environment."""
    module, _, kind = ENGINES[name].kind.partition(":")
    engine: Engine = getattr(import_module(f"bench.{module}"), kind)(name, root, codec)
    return engine


def why_not(name: str, rows: int, python: Path | None = None) -> str | None:
    """Return why this engine cannot run on this machine, or None."""
    if name not in ENGINES:
        return f"unknown; there are {', '.join(ENGINES)}"
    spec = ENGINES[name]
    if spec.rows_max and rows > spec.rows_max:
        return f"too slow above {spec.rows_max:,} rows"
    if not (python or spec.python).exists():
        return f"the environment {spec.environment} is not built (make setup)"
    return None

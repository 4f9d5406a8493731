"""Which Python the workers of a session run, and how Penstock reaches them: each test is a program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.java import use_java
from tests.kit.pythons import make_python, python_without_penstock
from tests.kit.sessions import KINDS

#: A session of the user's own, on a local master.
OWN_SESSION = (
    "import penstock\n"
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
)
#: A write and a query whose work is done by Python workers: an upsert into a log file, and a query that merges it.
WRITE_AND_READ = """
penstock.enable(spark)
options = {
    "hoodie.table.name": "trips", "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ", "penstock.small.batch.rows": "0", "penstock.small.batch.bytes": "0",
}
for ts in (1, 2):
    rows = spark.range(0, 10, 1, 1).selectExpr("concat('k', id) as id", f"{ts} as ts")
    rows.write.format("hudi").options(**options).mode("append").save("table")
print("sum", spark.read.format("hudi").options(**options).load("table").selectExpr("sum(ts)").first()[0])
"""


def run_program(text: str, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code with `python -c`: its main module has no file. A variable with an empty value is removed."""
    use_java()
    environment = {name: value for name, value in {**os.environ, **variables}.items() if value}
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, cwd=folder, timeout=300, check=False
    )


@pytest.mark.parametrize("chosen", [True, False], ids=["spark.pyspark.python", "not chosen"])
def test_workers_run_the_drivers_python_in_an_environment_that_is_not_activated(tmp_path: Path, chosen: bool) -> None:
    """The first `python3` of the PATH is another Python. Spark ignores its own setting if spark-submit did not start the program."""
    make_python(tmp_path / "bin" / "python3", "echo the wrong Python >&2; exit 1")
    session = OWN_SESSION
    if chosen:
        session = session.replace(".getOrCreate", f".config('spark.pyspark.python', {sys.executable!r}).getOrCreate")
    done = run_program(
        session + WRITE_AND_READ, tmp_path, PYSPARK_PYTHON="", PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    )
    assert done.stdout.splitlines()[-1:] == ["sum 20"], done.stderr


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "classic"])
def test_penstock_is_sent_to_executors_that_lack_it(tmp_path: Path, kind: str) -> None:
    python = python_without_penstock(tmp_path)
    program = (
        "import sys, penstock\n"
        "from pathlib import Path\n"
        "from tests.kit.sessions import SessionUnavailable, make_session\n"
        "def main():\n"
        f"    with make_session({kind!r}, Path(), worker_python={python!r}) as spark:\n"
        "        exec(WRITE_AND_READ, {'penstock': penstock, 'spark': spark})\n"
        f"WRITE_AND_READ = {WRITE_AND_READ!r}\n"
        "try:\n"
        "    main()\n"
        "except SessionUnavailable:\n"
        "    print('no such session')\n"
    )
    done = run_program(program, tmp_path, PYTHONPATH=str(Path(__file__).parents[2]))
    if done.stdout.splitlines()[-1:] == ["no such session"]:
        pytest.skip("the installed PySpark brings no Connect server")
    assert done.stdout.splitlines()[-1:] == ["sum 20"], done.stderr


@pytest.mark.parametrize("command", [f'exec {sys.executable} -I -S "$@"', "exit 3", None], ids=["bare", "broken", "not there"])
def test_a_python_that_cannot_run_penstock_is_one_typed_error(tmp_path: Path, command: str | None) -> None:
    python = str(tmp_path / "bin" / "python") if command is None else make_python(tmp_path / "bin" / "python", command)
    done = run_program(OWN_SESSION + WRITE_AND_READ, tmp_path, PYSPARK_PYTHON=python)
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.startswith("penstock.errors.ExecutorError: Spark's Python workers cannot run Penstock: "), done.stderr
    assert "set PYSPARK_PYTHON" in last
    assert done.stderr.count("Traceback") == 1
    assert not (tmp_path / "table").exists()

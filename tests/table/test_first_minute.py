"""The first minute of a new user: a program without a file, an environment that is not activated, a session of one's own."""

from __future__ import annotations

import os
import subprocess
import sys

WITHOUT_GRPC = "import sys; sys.modules['grpc'] = None\n"


def run_program(text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code with `python -c`: its main module has no file."""
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_a_program_without_a_file_and_without_grpc_runs_to_its_end() -> None:
    """Without grpc, an import of Connect's modules makes PySpark 4.3 end such a process with status 0."""
    done = run_program(
        WITHOUT_GRPC
        + "import penstock\n"
        + "spark = penstock.session(master='local[1]')\n"
        + "from penstock.spark.session import is_enabled\n"
        + "assert is_enabled(spark)\n"
        + "penstock.disable(spark)\n"
        + "assert not [name for name in sys.modules if name.startswith('pyspark.sql.connect.')], 'Connect is loaded'\n"
        + "print('the end')\n"
    )
    assert done.stdout.splitlines()[-1:] == ["the end"], done.stderr

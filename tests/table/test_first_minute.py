"""The first minute of a new user: a program without a file, an environment that is not activated, a session of one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WITHOUT_GRPC = "import sys; sys.modules['grpc'] = None\n"


def run_program(text: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code with `python -c`: its main module has no file."""
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, env=environment, timeout=300, check=False
    )


ROW_OF_HUDI = """
df = spark.createDataFrame([(1, 1)], "id int, ts int")
options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "ts"}
df.write.format("hudi").options(**options).mode("append").save(sys.argv[1])
print("rows:", spark.read.format("hudi").load(sys.argv[1]).where("id = 1").count())
"""


def test_a_program_without_a_file_and_without_grpc_runs_to_its_end(tmp_path: Path) -> None:
    """Without grpc, an import of Connect's modules makes PySpark 4.3 end such a process with status 0.

    So the program creates a table, appends to it in workers, reads it, and has to come to its last line.
    """
    done = run_program(
        WITHOUT_GRPC
        + "import penstock\n"
        + "spark = penstock.session(master='local[1]')\n"
        + "from penstock.spark.session import is_enabled\n"
        + "assert is_enabled(spark)\n"
        + ROW_OF_HUDI
        + "news = spark.createDataFrame([(1, 2), (2, 2)], 'id int, ts int')\n"
        + "in_workers = {**options, 'penstock.small.batch.rows': '0', 'hoodie.datasource.write.operation': 'upsert'}\n"
        + "news.write.format('hudi').options(**in_workers).mode('append').save(sys.argv[1])\n"
        + "print(sorted((row.id, row.ts) for row in spark.read.format('hudi').load(sys.argv[1]).collect()))\n"
        + "penstock.disable(spark)\n"
        + "assert not [name for name in sys.modules if name.startswith('pyspark.sql.connect.')], 'Connect is loaded'\n"
        + "print('the end')\n",
        str(tmp_path / "table"),
    )
    assert done.stdout.splitlines()[-3:] == ["rows: 1", "[(1, 2), (2, 2)]", "the end"], done.stderr
    assert done.returncode == 0


def test_the_settings_of_hudis_quickstart_do_no_harm_without_the_jar(tmp_path: Path) -> None:
    """Spark cannot load the catalog, and would fail in every query."""
    done = run_program(
        "import sys, warnings\n"
        "from pyspark.sql import SparkSession\n"
        "import penstock\n"
        "builder = SparkSession.builder.master('local[1]')\n"
        "builder.config('spark.serializer', 'org.apache.spark.serializer.KryoSerializer')\n"
        "builder.config('spark.sql.extensions', 'org.apache.spark.sql.hudi.HoodieSparkSessionExtension')\n"
        "builder.config('spark.sql.catalog.spark_catalog', 'org.apache.spark.sql.hudi.catalog.HoodieCatalog')\n"
        "spark = penstock.enable(builder.getOrCreate())\n" + ROW_OF_HUDI,
        str(tmp_path / "table"),
        PYSPARK_PYTHON=sys.executable,
    )
    assert done.stdout.splitlines()[-1:] == ["rows: 1"], done.stderr
    assert "Penstock has unset it for this session" in done.stderr


def test_a_registrator_of_hudis_jar_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """No job runs with it, and a running session cannot change it."""
    done = run_program(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "import penstock\n"
        "builder = SparkSession.builder.master('local[1]')\n"
        "builder.config('spark.serializer', 'org.apache.spark.serializer.KryoSerializer')\n"
        "builder.config('spark.kryo.registrator', 'org.apache.spark.HoodieSparkKryoRegistrar')\n"
        "try:\n    penstock.enable(builder.getOrCreate())\n"
        "except penstock.errors.Unsupported as e:\n    print('refused:', e)\n",
        PYSPARK_PYTHON=sys.executable,
    )
    assert "refused: spark.kryo.registrator=org.apache.spark.HoodieSparkKryoRegistrar" in done.stdout, done.stderr
    assert "Remove the setting" in done.stdout

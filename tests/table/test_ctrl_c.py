"""Ctrl-C during a write: a real signal to a program in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.spark.java import use_java
from tests.table.test_worker_python import OWN_SESSION, WRITE_AND_READ

#: A second write whose rows never come: the file `begun` says that its task runs.
SLOW_WRITE = """
def slow(batches):
    import time
    for batch in batches:
        open("begun", "w").close()
        time.sleep(600)
        yield batch
rows.mapInArrow(slow, rows.schema).write.format("hudi").options(**options).mode(mode).save("table")
"""


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_ctrl_c_ends_a_write_in_a_keyboard_interrupt_that_says_what_became_of_it(tmp_path: Path, mode: str) -> None:
    use_java()
    program = OWN_SESSION + WRITE_AND_READ.replace("(1, 2)", "(1,)") + f"mode = {mode!r}" + SLOW_WRITE
    log = tmp_path / "log"
    with log.open("w") as err:
        job = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=err)
    try:
        while not (tmp_path / "begun").exists():
            assert job.poll() is None, log.read_text()
            time.sleep(0.1)
        names = sorted(str(file) for file in (tmp_path / "table").rglob("*.parquet"))
        job.send_signal(signal.SIGINT)
        assert job.wait(timeout=120) == -signal.SIGINT, log.read_text()
    finally:
        job.kill()
        job.wait()
    said = log.read_text()
    (line,) = [line for line in said.splitlines() if line.startswith("KeyboardInterrupt")]  # Spark's log may follow
    assert line.endswith("table is as it was before")
    assert said.count("Traceback") == 1, said
    assert "py4j" not in said, said
    assert [file.name for file in (tmp_path / "table" / ".hoodie").glob("*.inflight")] != []
    assert len(list((tmp_path / "table" / ".hoodie").glob("*.requested"))) == 1
    assert sorted(str(file) for file in (tmp_path / "table").rglob("*.parquet")) == names
    assert [file.name for file in tmp_path.iterdir() if "table" in file.name] == ["table"]

"""The program `penstock`, run as a process: its output, its exit code, and its end by Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table that Hudi wrote."""
    name = "cow_v6_simplekeygen_nonhivestyle"
    zipfile.ZipFile(ROOT / "tests" / "data" / "tables" / f"{name}.zip").extractall(tmp_path)
    return str(next(tmp_path.rglob("hoodie.properties")).parents[1])


def penstock(*words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "30"}
    command = [sys.executable, "-m", "penstock.cli.main", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, preexec_fn=_heed_signals
    )


def _heed_signals() -> None:
    """Handle Ctrl-C as in a terminal. A process in the background may ignore it, which children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_penstock(*words: str) -> tuple[int, str]:
    process = penstock(*words)
    text, _ = process.communicate(timeout=300)
    return process.returncode, text


def test_one_round_runs_what_is_due_and_the_reports_are_tables(path: str) -> None:
    code, text = run_penstock("services", "run", path, "--once", "-o", "hoodie.cleaner.commits.retained=1")
    assert (code, [line.split(":")[0] for line in text.splitlines()]) == (0, ["clean", "archive"]), text
    code, text = run_penstock("services", "health", path)
    assert (code, "small files" in text, "days since the last clean" in text) == (0, True, True), text
    code, text = run_penstock("services", "check", path)
    assert (code, "all is well" in text) == (0, True), text
    min(Path(path).rglob("*_20240418172804498.parquet")).unlink()
    code, text = run_penstock("services", "check", path)
    assert (code, "is missing" in text) == (1, True), text
    code, text = run_penstock("services", "list", path)
    assert (code, bool(re.search("has no pending plans or writes", text))) == (0, True), text


def test_pending_plans_are_printed_in_full_in_a_narrow_terminal(path: str) -> None:
    (Path(path) / ".hoodie" / "20300101000000000.commit.requested").touch()
    code, text = run_penstock("services", "list", path)
    assert (code, len(text.splitlines())) == (0, 4), text
    assert re.search(r"20300101000000000 .*commit.* requested", text), text


def test_an_error_is_one_line_and_exit_code_1(path: str, tmp_path: Path) -> None:
    code, text = run_penstock("services", "run", str(tmp_path / "none"), "--once")
    assert (code, text.startswith("TableNotFound "), text.count("\n")) == (1, True, 1), text
    code, text = run_penstock("services", "run", path, "--once", "-o", "hoodie.cleaner.commits.retained")
    assert (code, "is not key=value" in text) == (1, True), text
    two = ["-o", "hoodie.cleaner.commits.retained=1", "-o", "hoodie.cleaner.hours.retained=1"]
    code, text = run_penstock("services", "run", path, "--once", *two)
    assert (code, "ask for different policies" in text, text.count("\n")) == (1, True, 1), text


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_loop_runs_rounds_until_a_signal(path: str, sent: signal.Signals) -> None:
    process = penstock("services", "run", path, "--interval", "0.3")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    assert [line.split(":")[0] for line in lines] == ["clean", "archive"] * 2
    process.send_signal(sent)
    rest, _ = process.communicate(timeout=60)
    assert "stopped" in rest
    assert process.returncode in (0, 130)


def test_ctrl_c_during_a_service_ends_the_program_with_a_line_on_what_became_of_it(path: str) -> None:
    program = (
        "import signal, sys; from penstock.cli.main import main; from penstock.services.clean import run\n"
        "run.schedule_clean = lambda *_, **__: signal.raise_signal(signal.SIGINT)\n"
        f"sys.argv = ['penstock', 'services', 'run', {path!r}]; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "30"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        preexec_fn=_heed_signals,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.startswith(f"stopped: clean of {path} was interrupted. "), done.stdout
    assert done.stdout.count("\n") == 1


def test_a_dry_run_of_a_repair_shows_the_damage_and_changes_nothing(path: str, tmp_path: Path) -> None:
    assert run_penstock("services", "repair", path, "--dry-run") == (0, "no log file is damaged\n")
    tables = ROOT / "tests" / "data" / "tables"
    zipfile.ZipFile(tables / "trips_mor_avro_v6_trips_8i1u.zip").extractall(tmp_path / "mor")
    (properties,) = (tmp_path / "mor").rglob("hoodie.properties")
    table = properties.parents[1]
    (log,) = table.rglob(".*.log.1_*")
    spoiled = log.read_bytes() + bytes(100)
    log.write_bytes(spoiled)
    code, text = run_penstock("services", "repair", str(table), "--dry-run")
    assert (code, "torn blocks" in text, "up to 0" in text) == (1, True, True), text
    assert log.read_bytes() == spoiled


def test_the_program_prints_its_version() -> None:
    import penstock as package

    assert run_penstock("--version") == (0, f"penstock {package.__version__}\n")

"""`penstock doctor`: shows what Penstock finds about this machine and the storage of a path, and the fix of what is missing."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING

import typer

import penstock
from penstock.cli.arguments import OPTION, parse_options
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.storage import Storage

_PATH = typer.Argument(help="The folder of a table, or of one that is yet to be written.")
_PROBE = typer.Option(True, help="Try conditional puts: two small files are written next to the path, and deleted.")
_JAVA_SECONDS_MAX = 60


def doctor(path: str = _PATH, option: list[str] = OPTION, probe: bool = _PROBE) -> None:
    """Show Java, packages and the settings of a path's storage, and whether the storage can be read and written safely.

    Secrets are masked. Exit code 1 if something is missing.
    """
    from penstock.storage import explain_storage, open_storage  # here, so that `--version` and `--help` do not wait for pyarrow

    settings = {key: str(value) for key, value in parse_options(option).items()}
    found = [
        _report("python", lambda: platform.python_version()),
        _report("penstock", lambda: penstock.__version__),
        _report("spark", _find_pyspark),
        _report("java", _find_java),
    ]
    storage_found = _report("storage", lambda: explain_storage(path, settings))
    found.append(storage_found)
    if storage_found:
        storage, base_path = open_storage(path, settings)
        is_readable = _report("table", lambda: _find_table(storage, base_path))
        found.append(is_readable)
        if is_readable and probe:
            found.append(_report("commits", lambda: _check_commits(storage, base_path)))
    if not all(found):
        raise typer.Exit(1)


def _report(name: str, check: Callable[[], str]) -> bool:
    """Print a line with the name of a check and what the check returns, or its error. Return whether it raised no error."""
    try:
        text = check()
    except PenstockError as e:
        typer.echo(f"{name:9} FAIL  {e}")
        return False
    first, *more = text.splitlines()
    typer.echo(f"{name:9} ok    {first}")
    for line in more:
        typer.echo(f"{'':15} {line}")
    return True


def _find_pyspark() -> str:
    """Return the version of PySpark as text. Raise PenstockError if it is not installed."""
    try:
        return f"PySpark {metadata.version('pyspark')}"
    except metadata.PackageNotFoundError:
        raise PenstockError("PySpark is not installed, so tables can be read only; run: pip install 'penstock[spark]'") from None


def _find_java() -> str:
    """Return the home folder of the Java that a local session would use. Raise PenstockError if there is none."""
    command = [sys.executable, "-m", "penstock.spark.java"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_JAVA_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise PenstockError(f"Java gave no answer within {_JAVA_SECONDS_MAX} seconds") from None
    except OSError as e:
        raise PenstockError(f"Java could not be looked for: {e}") from e
    if ran.returncode != 0:
        raise PenstockError((ran.stderr or ran.stdout).strip() or "no Java was found")
    return ran.stdout.strip()


def _find_table(storage: Storage, base_path: str) -> str:
    """Return the name and type of the table at a path, or a text which says that there is none."""
    from penstock.table.config import find_config

    config = find_config(storage, base_path)
    if config is None:
        return "none at this path yet; the storage answers"
    return f"{config.name}, {config.table_type}"


def _check_commits(storage: Storage, base_path: str) -> str:
    """Check that two writers cannot publish the same commit. Return a text which says how the storage prevents it.

    Raises:
        Unsupported: the storage cannot prevent it.
    """
    from penstock.storage import ObjectStorage, check_conditional_put

    check_conditional_put(storage, base_path)
    if isinstance(storage, ObjectStorage):
        return "the store honours conditional puts: two writers cannot publish the same commit"
    return "files are created exclusively: two writers cannot publish the same commit"

"""`penstock explain-merge`: shows the outcome of an upsert for some keys, without writing."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import typer

import penstock
from penstock.cli.arguments import OPTION, PATH, parse_options
from penstock.errors import OptionError

_KEYS = typer.Option(None, "--keys", "-k", help="Record keys, separated by commas; by default the first 20 of the rows.")
_BATCH = typer.Option(..., "--batch", "-b", help="The rows: a Parquet file or folder, or a file of JSON lines.")
_IMPORT = typer.Option(None, "--import", help="A module that registers your own payloads; repeat it for several modules.")

#: The column in which Spark puts a line that it cannot parse.
_NO_JSON = "_corrupt_record"


def explain_merge(
    path: str = PATH,
    batch: str = _BATCH,
    keys: str | None = _KEYS,
    option: list[str] = OPTION,
    modules: list[str] = _IMPORT,
) -> None:
    """Show which row of a key would win if the rows of a file were upserted, and why. Nothing is written."""
    from pyspark.errors import AnalysisException  # here, so that `--version` and `--help` do not wait for pyspark

    options = parse_options(option)
    _import(modules)
    table = penstock.Table.open(path, penstock.session(), options={"penstock.progress": "off", **options})
    wanted = None if keys is None else [key.strip() for key in keys.split(",")]
    try:
        rows = _rows(table, batch if "://" in batch else os.path.abspath(batch))
    except AnalysisException as e:
        raise OptionError(f"--batch {batch} cannot be read: {str(e).splitlines()[0]}") from e
    typer.echo(str(table.explain_merge(rows, wanted)))  # full width: rich would cut the key column in a narrow terminal or a pipe


def _import(modules: list[str] | None) -> None:
    """Import the modules that `--import` names, so that they register payloads. Modules that a table names are never imported.

    The current folder is searched first.

    Raises:
        OptionError: a module cannot be imported.
    """
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    for name in modules or ():
        try:
            importlib.import_module(name)
        except ImportError as e:
            raise OptionError(f"--import {name} cannot be imported: {e}") from e


def _rows(table: penstock.Table, batch: str) -> Any:
    """Read the rows of `--batch`, a Parquet or JSON file, as a DataFrame.

    JSON has few types, so columns of a JSON file that the table has get the table's types.

    Args:
        batch: the path of the file.

    Raises:
        OptionError: a line of a JSON file is not JSON.
    """
    spark = penstock.session()
    if not batch.endswith((".json", ".jsonl", ".ndjson")):
        return spark.read.parquet(batch)
    inferred = spark.read.json(batch).schema
    if _NO_JSON in inferred.names:
        raise OptionError(f"--batch {batch} has lines that are not JSON; write one JSON object per line")
    known = {field.name: field for field in table.read().schema}
    return spark.read.schema(type(inferred)([known.get(field.name, field) for field in inferred])).json(batch)

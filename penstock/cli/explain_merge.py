"""`penstock explain-merge`: what an upsert of a file would make of some keys, as a table in the terminal; nothing is written."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import typer
from pyspark.errors import AnalysisException

import penstock
from penstock.cli.arguments import OPTION, PATH, options_of
from penstock.errors import OptionError

_KEYS = typer.Option(None, "--keys", "-k", help="Record keys, with commas between; the first 20 of the rows, if none are named.")
_BATCH = typer.Option(..., "--batch", "-b", help="The rows: a Parquet file or folder, or a file of JSON, a row a line.")
_IMPORT = typer.Option(None, "--import", help="A module that registers payloads of your own; may be given again.")

#: Where Spark puts a line that it cannot read.
_NO_JSON = "_corrupt_record"


def explain_merge(
    path: str = PATH,
    batch: str = _BATCH,
    keys: str | None = _KEYS,
    option: list[str] = OPTION,
    modules: list[str] = _IMPORT,
) -> None:
    """Show which row of a key would win, and why, if a file of rows were upserted. Nothing is written."""
    options = options_of(option)
    _import(modules)
    table = penstock.Table.open(path, penstock.session(), options={"penstock.progress": "off", **options})
    wanted = None if keys is None else [key.strip() for key in keys.split(",")]
    try:
        rows = _rows(table, batch if "://" in batch else os.path.abspath(batch))
    except AnalysisException as e:
        raise OptionError(f"--batch {batch} cannot be read: {str(e).splitlines()[0]}") from e
    typer.echo(str(table.explain_merge(rows, wanted)))  # in full: a narrow terminal, or a pipe, would lose the keys first


def _import(modules: list[str] | None) -> None:
    """What the user names is imported; what a table names never is."""
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    for name in modules or ():
        try:
            importlib.import_module(name)
        except ImportError as e:
            raise OptionError(f"--import {name} cannot be imported: {e}") from e


def _rows(table: penstock.Table, batch: str) -> Any:
    """The rows of a file. JSON says little about types: columns of the table take the table's."""
    spark = penstock.session()
    if not batch.endswith((".json", ".jsonl", ".ndjson")):
        return spark.read.parquet(batch)
    inferred = spark.read.json(batch).schema
    if _NO_JSON in inferred.names:
        raise OptionError(f"--batch {batch} has lines that are no JSON; it has to be a file with one row a line")
    known = {field.name: field for field in table.read().schema}
    return spark.read.schema(type(inferred)([known.get(field.name, field) for field in inferred])).json(batch)

"""`penstock sync`: registers a table in Hive or another catalog."""

from __future__ import annotations

from typing import Any

import typer

import penstock
from penstock.cli.arguments import OPTION, PATH, parse_options


def sync(path: str = PATH, option: list[str] = OPTION) -> None:
    """Register the table, its columns and its partitions in a catalog. Safe to repeat."""
    # Imported here, so that `--version` and `--help` do not wait for them.
    from penstock import options as o
    from penstock.options import read_options
    from penstock.options.sync_tool_names import HIVE_SYNC_TOOL
    from penstock.sync.known_catalogs import sync_mode

    given = parse_options(option)
    options = read_options(given)
    runs_statements = HIVE_SYNC_TOOL in options[o.META_SYNC_TOOLS] and sync_mode(options) == "hiveql"
    spark: Any = penstock.session() if runs_statements else None
    typer.echo(str(penstock.Table.open(path, spark=spark, options=given).sync()))

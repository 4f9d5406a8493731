"""The files of a write as its index needs them, before and after the commit (`WrittenFiles` of `index/index.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.index.index import WrittenFiles
from penstock.spread.driver import fits_on_driver
from penstock.spread.runner import Runner
from penstock.spread.session import count_cores
from penstock.timeline.commit_file import WriteStat
from penstock.write.context import WriteContext

#: Tasks that the driver runs at a time.
_DRIVER_TASKS = 4


def written_files(write: WriteContext, instant: str, stats: Sequence[WriteStat], *, rows: int) -> WrittenFiles:
    """Return the files of a write for its index.

    Args:
        rows: how many rows the index handles. The driver handles a small number without a Spark job.
    """
    on_driver = fits_on_driver(write.options, rows=rows)
    tasks_at_once = _DRIVER_TASKS if on_driver else count_cores(write.spark.conf) or len(stats)
    return WrittenFiles(
        table=write.table,
        instant=instant,
        stats=stats,
        runner=Runner(write.spark, on_driver=on_driver),
        tasks_at_once=tasks_at_once,
    )

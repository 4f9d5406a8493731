"""A process with a Spark session of its own that a test kills, or whose workers it kills.

    python -m tests.crash.victim driver <call number> <plan folder> <table>
    python -m tests.crash.victim workers <call number> <plan folder> <table> [<call number> <plan folder> <table> ...]

Each table gets the upsert of `scenes.CHANGES`. `driver`: this process kills itself at the n-th of its own calls. `workers`: the
worker that makes the n-th call of all workers kills itself, once per table, and Spark is allowed to try again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import penstock
from tests.crash.scenes import CHANGES, Runner, Step
from tests.kit.faults import Fault, FaultPlan, injected
from tests.kit.sessions import make_session

IN_TASKS = Step("upsert", CHANGES, options={"penstock.small.batch.rows": 0})


def main(kind: str, *arguments: str) -> None:
    """Run the upserts, as far as we live."""
    me = os.getpid()
    with TemporaryDirectory() as folder, make_session("classic", Path(folder), {"spark.master": "local[2,3]"}) as spark:
        runner = Runner(penstock.enable(spark), in_tasks=True)
        for at, plan_folder, table in zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True):
            where = {"only_in": me} if kind == "driver" else {"not_in": me}
            plan = FaultPlan(plan_folder, int(at), Fault.KILLED, **where)
            with injected(plan):
                runner.run(IN_TASKS, f"crash:{table}")


if __name__ == "__main__":
    main(*sys.argv[1:])

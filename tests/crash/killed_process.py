"""A process with a Spark session of its own that a test kills, or whose workers or executors it kills.

    python -m tests.crash.killed_process driver <pattern of a call> <plan folder> <table>
    python -m tests.crash.killed_process workers <call number> <plan folder> <table> [<call number> <plan folder> <table> ...]
    python -m tests.crash.killed_process executors <call number> <plan folder> <table> [<call number> <plan folder> <table> ...]

Each table gets the upsert of `scenes.CHANGES`. `driver`: this process kills itself at the first of its own calls that matches.
`workers`: the worker that makes the n-th call of all workers kills itself, once per table, and Spark is allowed to try again.
`executors`: the same, and it takes its executor with it.
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

SESSIONS: dict[str, tuple[str, dict[str, str]]] = {
    "driver": ("classic", {}),
    "workers": ("classic", {"spark.master": "local[2,3]"}),
    "executors": ("local-cluster", {}),
}
IN_TASKS = Step("upsert", CHANGES, options={"penstock.small.batch.rows": 0})


def main(kind: str, *arguments: str) -> None:
    """Run the upserts, as far as we live."""
    me = os.getpid()
    session, conf = SESSIONS[kind]
    fault = Fault.EXECUTOR_KILLED if kind == "executors" else Fault.KILLED
    with TemporaryDirectory() as folder, make_session(session, Path(folder), conf) as spark:
        runner = Runner(penstock.enable(spark), in_tasks=True)
        for at, plan_folder, table in zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True):
            if kind == "driver":
                plan = FaultPlan(plan_folder, fault=fault, match=at, only_in=me)
            else:
                plan = FaultPlan(plan_folder, int(at), fault, not_in=me)
            with injected(plan):
                runner.run(IN_TASKS, f"crash:{table}")


if __name__ == "__main__":
    main(*sys.argv[1:])

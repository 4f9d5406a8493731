"""`Runner`: the value that the stages of a write or service pass on to run kernels, without knowing where they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.spread.run import Result, Task, run_in_spark, run_on_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Runner:
    """Runs kernels over task descriptions: in Spark tasks, or on threads of the driver where starting Spark tasks costs more."""

    #: None: there is no session, and everything runs on the driver.
    spark: SparkSession | None
    on_driver: bool = False

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task], returns: type[Result]) -> list[Result]:
        """Run a kernel once per task description and return the results in the order of the tasks.

        Args:
            returns: the type that the kernel returns. Results come back from Spark tasks as JSON, and are made this type again.
        """
        if not tasks:
            return []
        if self.spark is None or self.on_driver:
            return run_on_driver(kernel, tasks)
        return run_in_spark(self.spark, kernel, tasks, returns)

    def collect(self, kernel: Callable[[Task], list[Result]], tasks: Sequence[Task], returns: type[Result]) -> list[Result]:
        """Run a kernel that returns a list (of write stats, for example) and return all items in the order of the tasks.

        Args:
            returns: the type of each item.
        """
        items: list[Result] = []
        for result in self.run(kernel, tasks, list[returns]):  # type: ignore[valid-type]
            items += result
        return items

    def at_driver(self) -> Runner:
        """Return a runner that runs everything on the driver."""
        return replace(self, on_driver=True)

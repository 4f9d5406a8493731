"""`Runner`: runs kernels in Spark or on the driver. The stages of writes and services call it in the same way in both cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.workers.run_kernels import Result, Task, run_in_spark, run_on_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Runner:
    """Runs kernels over task descriptions: on threads of the driver if `on_driver` is true or `spark` is None, else in Spark."""

    #: None if there is no session. Then all kernels run on the driver.
    spark: SparkSession | None
    on_driver: bool = False
    #: Whether tasks on the driver mostly wait for an object store.
    waits: bool = False

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task], returns: type[Result]) -> list[Result]:
        """Run a kernel once per task description; return the results in the order of `tasks`.

        Args:
            kernel: a module-level function that is called with one task description.
            returns: the type that the kernel returns. Results come back from Spark tasks as JSON and are converted to this type.
        """
        if not tasks:
            return []
        if self.spark is None or self.on_driver:
            return run_on_driver(kernel, tasks, waits=self.waits)
        return run_in_spark(self.spark, kernel, tasks, returns)

    def collect(self, kernel: Callable[[Task], list[Result]], tasks: Sequence[Task], returns: type[Result]) -> list[Result]:
        """Run a kernel that returns a list, once per task description. Return the items of all lists in one list.

        The items are in the order of `tasks`, and within a task in the order of its list.

        Args:
            kernel: a module-level function that is called with one task description and returns a list.
            returns: the type of each item, for example `WriteStat`.
        """
        items: list[Result] = []
        for result in self.run(kernel, tasks, list[returns]):  # type: ignore[valid-type]
            items += result
        return items

    def at_driver(self) -> Runner:
        """Return a copy of this runner that runs all kernels on the driver."""
        return replace(self, on_driver=True)

"""`TableService`: what every table service is to its callers, after a write and on its own.

A new table service is one module with a subclass, and one line in the registry `SERVICES` of `door/services.py`. The registry
serves three callers: a write that has just committed, `Table.run_due`, and `penstock services run`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.table import TableState

if TYPE_CHECKING:
    from penstock.progress import Stages


class TableService(ABC):
    """Work on a table that its options ask for: after a write, or in a process of its own next to writers."""

    #: Name in reports of services that ran: `clean`.
    name: ClassVar[str]
    #: Title of progress lines and of Spark's jobs; the name of the table follows it.
    title: ClassVar[str]
    #: Noun in the text of a failure after a write: "the write is done, do not run it again; but {noun} failed".
    failure_noun: ClassVar[str]
    #: Whether the service may start Spark tasks. Services that do not run without a session.
    uses_spark: ClassVar[bool] = False
    #: Whether a failure after a write raises by default. The option `hoodie.fail.writes.on.inline.table.service.exception`
    #: decides where it is set.
    raises_after_write: ClassVar[bool] = False

    @abstractmethod
    def follows_write(self, table: TableState) -> bool:
        """Whether the options ask for the service after a write to the table."""

    @abstractmethod
    def may_be_due(self, table: TableState) -> bool:
        """Whether a run on its own has to consider the service: a cheap answer, from options and timeline alone."""

    @abstractmethod
    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Do what is due, after finishing what an earlier run left; safe next to a writer.

        Args:
            spark: the session; None where `uses_spark` is false.

        Returns:
            What was done, in a few words; None where nothing was due.
        """

    def run_after_write(self, spark: Any, table: TableState, stages: Stages) -> None:
        """Do what the options ask for after a write."""
        self.run_due(spark, table, stages)

"""`TableService`: the interface of every table service, called after a write or outside a write.

A new table service is one module with a subclass, and one line in the registry `SERVICES` of `door/services.py`. Three callers
use the registry: a write that has just committed, `Table.run_due`, and the command `penstock services run`. The last two run
outside a write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.table.state import TableState

if TYPE_CHECKING:
    from penstock.progress import Stages


class TableService(ABC):
    """A kind of table maintenance, such as compaction. It runs after a write in the writing process, or in a separate process."""

    #: Name in the report of which services ran, for example `clean`.
    name: ClassVar[str]
    #: First words of progress lines and of the descriptions of Spark jobs; the name of the table follows.
    title: ClassVar[str]
    #: Noun in the text of a failure after a write: "the write is done, do not run it again; but {noun} failed".
    failure_noun: ClassVar[str]
    #: Whether the service may start Spark tasks. A service that never does is run without a Spark session.
    uses_spark: ClassVar[bool] = False
    #: Whether a failure of the service after a write raises an error. The option
    #: `hoodie.fail.writes.on.inline.table.service.exception`, if set, takes precedence.
    raises_after_write: ClassVar[bool] = False

    @abstractmethod
    def follows_write(self, table: TableState) -> bool:
        """Whether the options ask to run the service after each write to the table."""

    @abstractmethod
    def may_be_due(self, table: TableState) -> bool:
        """Whether to call `run_due` outside a write, because the service may be due. Cheap: reads only options and timeline."""

    def needs_spark(self, table: TableState) -> bool:
        """Whether a run of the service for this table needs a Spark session. The default returns `uses_spark`."""
        return self.uses_spark

    @abstractmethod
    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Finish what an interrupted run of the service left, then do what is due now. Other processes may write concurrently.

        Args:
            spark: the Spark session; None if `needs_spark` is false for the table.
            stages: reports progress and measures durations.

        Returns:
            What was done, as a few words for a report; None if nothing was due.
        """

    def run_after_write(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Run the service after a write, in the writing process, as far as the options ask. The default calls `run_due`.

        Returns:
            What was done, as a few words for a report; None if nothing was due.
        """
        return self.run_due(spark, table, stages)

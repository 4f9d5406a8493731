"""What the verbs of `Table` have in common: the table as it is now, and a session. `Table` fills it in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pyspark.sql import SparkSession

from penstock.table import TableState


class Opened(ABC):
    """A table that verbs are called on."""

    @abstractmethod
    def _state(self, options: Mapping[str, object] | None = None) -> TableState:
        """The table as it is now; with its own options and those of the call where these are given, else with none."""

    @abstractmethod
    def _reader(self) -> SparkSession:
        """The session that reads and runs tasks."""

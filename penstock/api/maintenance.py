"""The verbs of `Table` for its health: how it is doing, and partitions whose time is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock import clock
from penstock import options as o
from penstock.api.handle import Opened
from penstock.api.report import Column, Commit, Report
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.door.expire import EXPIRE_PARTITIONS, expire_partitions
from penstock.door.follow_ups import describe_error
from penstock.door.services import make_stages, services_for
from penstock.errors import OptionError
from penstock.services.file_check import FileProblem, check_files
from penstock.services.health import Finding, check_health
from penstock.table import reload_table


class Health(Report[Finding]):
    """How a table is doing: numbers, each with what to do where one is bad.

    Example:
        >>> [finding.measure for finding in table.health() if not finding.is_fine]
        []
    """

    title = "Health"
    columns = (
        Column("measure", lambda f: str(f.measure)),
        Column("value", lambda f: str(f.value)),
        Column("suggestion", lambda f: f.suggestion or "fine"),
    )
    schema = pa.schema([("measure", pa.string()), ("value", pa.string()), ("suggestion", pa.string())])


class FileProblems(Report[FileProblem]):
    """Files that are needed and missing, or that nobody answers for.

    Example:
        >>> len(table.check_files())
        0
    """

    title = "Files"
    columns = (Column("path", lambda f: str(f.path)), Column("problem", lambda f: str(f.problem)))
    schema = pa.schema([("path", pa.string()), ("problem", pa.string())])


@dataclass(frozen=True)
class ServiceRun:
    """One table service that was looked at, and run if it was due.

    Example:
        >>> [(run.service, run.done) for run in table.run_due()]
        [('clean', None), ('archive', None)]
    """

    service: str
    #: What it did; None where there was nothing to do.
    done: str | None
    seconds: float
    #: Why it failed; None where it did not. The next run tries it again.
    error: str | None = None


class ServiceRuns(Report[ServiceRun]):
    """What table services did.

    Example:
        >>> len(table.run_due())
        2
    """

    title = "Services"
    columns = (
        Column("service", lambda r: str(r.service)),
        Column("result", lambda r: f"failed: {r.error}" if r.error else r.done or "not due"),
        Column("seconds", lambda r: f"{r.seconds:.2f}", right=True),
    )
    schema = pa.schema([("service", pa.string()), ("done", pa.string()), ("seconds", pa.float64()), ("error", pa.string())])


class CareVerbs(Opened):
    """What can be known and done about a table as it grows old."""

    def health(self, options: Mapping[str, object] | None = None) -> Health:
        """Small files, rows per file, logs, plans that wait, the last clean, the timeline; with a suggestion for each.

        No data file is opened and nothing is written.

        Args:
            options: what is small or old, such as `hoodie.parquet.small.file.limit`, by their keys.

        Example:
            >>> print(table.health())
            Health of trips
            measure                    value                           suggestion
            ─────────────────────────────────────────────────────────────────────
            small files                2 of 2                          fine
            rows per file              1                               fine
            log to base size           no logs: a copy-on-write table  fine
            ...
        """
        state = self._state(options or {})
        return Health(check_health(state), state.config.name)

    def check_files(self) -> FileProblems:
        """Whether files and timeline agree: what commits, savepoints and plans need is there, and each data file is explained.

        Old versions and replaced file groups are no problem: cleaning takes them. Rows are not read. Nobody may write or clean
        meanwhile, or what they do may look wrong.

        Returns:
            What is wrong; nothing, if all is well.

        Raises:
            CorruptFile: a commit, savepoint or plan cannot be read.

        Example:
            >>> list(table.check_files())
            []
        """
        state = self._state({})
        return FileProblems(check_files(state), state.config.name)

    def expire_partitions(self, options: Mapping[str, object] | None = None) -> Commit | None:
        """Take partitions out of the table whose time is over, as one commit. Their files stay until they are cleaned.

        Every write does so by itself where `hoodie.partition.ttl.inline` is true.

        Args:
            options: `hoodie.partition.ttl.strategy.days.retain` and its companions, by their keys.

        Returns:
            The commit; None if no partition is old enough, or somebody else writes, which a warning says.

        Raises:
            OptionError: the options do not say how long a partition stays.

        Example:
            >>> table.expire_partitions({"hoodie.partition.ttl.strategy.days.retain": 30}) is None
            True
        """
        state, spark = self._state(options or {}), self._reader()
        if state.options[o.TTL_DAYS] <= 0:
            raise OptionError(f"{o.TTL_DAYS.key}={state.options[o.TTL_DAYS]} keeps all partitions; give the days they stay")
        began = clock.monotonic_s()
        stages = make_stages(EXPIRE_PARTITIONS.title, state, spark)
        done = expire_partitions(turn_off_metadata_table(state), stages, spark)
        return replace(Commit.of(done.instant, done.metadata), seconds=clock.monotonic_s() - began) if done else None

    def run_due(
        self, options: Mapping[str, object] | None = None, told: Callable[[ServiceRun], None] | None = None
    ) -> ServiceRuns:
        """Run the table services that are due: clean, archive, compaction of merge-on-read tables, clustering. Others may write.

        A service that fails does not keep the next from running. Plans that wait, or whose run died, are finished. A new
        clustering is planned where the options ask for one, as with `hoodie.clustering.async.enabled`.

        Args:
            options: what is kept and when a service is due, by their keys.
            told: called after each service.

        Raises:
            OptionError: options contradict each other.

        Example:
            >>> print(table.run_due())
            Services of trips
            service  result   seconds
            ─────────────────────────
            clean    not due     ...
            archive  not due     ...
        """
        state = self._state(options or {})
        o.check_combinations(state.options)
        runs = []
        for service in services_for(state):
            began = clock.monotonic_s()
            done, error = None, None
            try:
                spark = self._reader() if service.uses_spark else None
                done = service.run_due(spark, reload_table(state), make_stages(service.title, state, spark))
            except Exception as e:  # of ours, of Spark's, or for a file that a writer has archived or cleaned just now
                error = describe_error(e)
            runs.append(ServiceRun(service.name, done, clock.monotonic_s() - began, error))
            if told:
                told(runs[-1])
        return ServiceRuns(runs, state.config.name)

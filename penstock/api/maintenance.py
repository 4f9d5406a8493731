"""The methods of `Table` for maintenance: health, file check, expired partitions, and all services that are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock import clock
from penstock import options as o
from penstock.api.handle import TableHandle
from penstock.api.report import Column, Commit, Report
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.door.expire import EXPIRE_PARTITIONS, expire_partitions
from penstock.door.follow_ups import describe_error
from penstock.door.services import run_service, services_for
from penstock.errors import OptionError
from penstock.report_table import HtmlFields
from penstock.services.file_check import FileProblem, check_files
from penstock.services.health import Finding, check_health
from penstock.table.state import reload_table


class Health(Report[Finding]):
    """Measures of a table's health, each with a suggestion if its value is bad. `Table.health` returns it.

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
    """Files that the timeline needs and that are missing or too short, and data files that no instant of the timeline explains.

    `Table.check_files` returns it.

    Example:
        >>> table.check_files()
        Files of trips: all is well, no file is missing and the timeline explains every file
    """

    title = "Files"
    if_empty = "all is well, no file is missing and the timeline explains every file"
    columns = (Column("path", lambda f: str(f.path)), Column("problem", lambda f: str(f.problem)))
    schema = pa.schema([("path", pa.string()), ("problem", pa.string())])


@dataclass(frozen=True)
class ServiceRun(HtmlFields):
    """The result of one table service in a run: what it did, that it was not due, or why it failed.

    Example:
        >>> [(run.service, run.done) for run in table.run_due()]
        [('clean', None), ('archive', None)]
    """

    service: str
    #: What the service did; None if it was not due.
    done: str | None
    seconds: float
    #: Why the service failed; None if it did not. The next run tries it again.
    error: str | None = None


class ServiceRuns(Report[ServiceRun]):
    """The results of the table services of one run. `Table.run_due` returns it.

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


class MaintenanceMethods(TableHandle):
    """The methods of `Table` for maintenance: health, file check, expired partitions, and all services that are due."""

    def health(self, options: Mapping[str, object] | None = None) -> Health:
        """Return measures of the table's health, such as small files, log sizes and pending plans, with suggestions.

        No data file is opened and nothing is written.

        Args:
            options: options by their keys, for example `hoodie.parquet.small.file.limit`.

        Returns:
            One finding per measure, with a suggestion if its value is bad.

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
        """Check that every file which commits, savepoints and plans need exists, and that the timeline explains every data file.

        A file that is shorter than its commit recorded is a problem too. The sizes come from the listing.

        Old file versions and replaced file groups are no problem: a clean deletes them. No rows are read. Call it while no
        process writes or cleans; a write in progress may look like a problem.

        Returns:
            The problems; an empty report if there are none.

        Raises:
            CorruptFile: a commit, savepoint or plan cannot be read.

        Example:
            >>> list(table.check_files())
            []
        """
        state = self._state({})
        return FileProblems(check_files(state), state.config.name)

    def expire_partitions(self, options: Mapping[str, object] | None = None) -> Commit | None:
        """Remove partitions that are older than the options allow, in one commit. Their files stay until they are cleaned.

        Every write does this if `hoodie.partition.ttl.inline` is true.

        Args:
            options: options by their keys, for example `hoodie.partition.ttl.strategy.days.retain`.

        Returns:
            The commit; None if no partition has expired, or, with a warning, if another process writes.

        Raises:
            OptionError: the options do not say after how many days a partition expires.

        Example:
            >>> table.expire_partitions({"hoodie.partition.ttl.strategy.days.retain": 30}) is None
            True
        """
        state = self._state(options or {})
        spark = self._reader()
        if state.options[o.TTL_DAYS] <= 0:
            raise OptionError(
                f"{o.TTL_DAYS.key}={state.options[o.TTL_DAYS]} keeps all partitions; set the number of days to keep a partition"
            )
        began = clock.monotonic_s()
        with run_service(EXPIRE_PARTITIONS.title, state, spark) as stages:
            done = expire_partitions(turn_off_metadata_table(state), stages, spark)
        return replace(Commit.of(done.instant, done.metadata), seconds=clock.monotonic_s() - began) if done else None

    def run_due(
        self, options: Mapping[str, object] | None = None, told: Callable[[ServiceRun], None] | None = None
    ) -> ServiceRuns:
        """Run the table services that are due: clean, archive, compaction of merge-on-read tables, clustering, and others.

        Other processes may write at the same time. A service that fails does not stop the next one. Pending plans, and plans
        whose run died, are finished. A new clustering is scheduled only if the options ask for it, for example
        `hoodie.clustering.async.enabled`.

        Args:
            options: options by their keys.
            told: called after each service with its result; None: not called.

        Returns:
            One result per service, also for services that were not due or failed.

        Raises:
            OptionError: options contradict each other.
            KeyboardInterrupt: the user pressed Ctrl-C. Its message says what became of the service that ran.

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
            done = None
            error = None
            try:
                spark = self._reader() if service.needs_spark(state) else None
                state = reload_table(state)
                with run_service(service.title, state, spark) as stages:
                    done = service.run_due(spark, state, stages)
            except Exception as e:  # any error: the next service runs in any case
                error = describe_error(e)
            runs.append(ServiceRun(service.name, done, clock.monotonic_s() - began, error))
            if told:
                told(runs[-1])
        return ServiceRuns(runs, state.config.name)

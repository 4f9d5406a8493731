"""Posts OpenLineage events about the beginning and the end of each write to a server such as Marquez.

An event never changes what a write does. If it cannot be delivered, the write warns and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.errors import CallbackFailed
from penstock.hooks.commit_hook import HookOutcome, PublishedCommit
from penstock.hooks.http_callback import HttpSender, make_sender, split_credentials
from penstock.hooks.outbox import Message
from penstock.options import Options
from penstock.schema import avro_to_spark
from penstock.storage.location import parse_location
from penstock.user_warning import warn_user

_NAME = "openlineage"
_PRODUCER = "urn:penstock"
_SPEC = "https://openlineage.io/spec"
_EVENT_SCHEMA = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"


@dataclass(frozen=True)
class Dataset:
    """A table, under the names that OpenLineage defines for files. Events of other programs use the same names.

    The namespace is the scheme with the bucket or host, such as `s3://bucket`, and `file` for local tables. The name is the path,
    in a bucket without the slash before it.
    """

    namespace: str
    name: str
    #: The path of the table, as users write it.
    uri: str


@dataclass(frozen=True)
class _Facets:
    """What an event says about the run, and about the table in addition to its name, by the names of OpenLineage's facets."""

    run: Mapping[str, Any] = field(default_factory=dict)
    dataset: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LineageRun:
    """One write, as OpenLineage sees it: a run of a job that writes one dataset."""

    sender: HttpSender
    run_id: str
    job_namespace: str
    job_name: str
    dataset: Dataset

    def start(self) -> None:
        """Report that the write begins."""
        self._send("START")

    def complete(self, commit: PublishedCommit) -> HookOutcome:
        """Report that the write has committed, with the schema of the table and counts of rows.

        Returns:
            Whether the report was delivered, as a `HookOutcome` with the error if it was not.
        """
        began = clock.monotonic_s()
        error = self._send("COMPLETE", partial(_describe_commit, commit))
        return HookOutcome(_NAME, error, clock.monotonic_s() - began)

    def complete_without_commit(self) -> None:
        """Report that the write ended without a commit, because the table exists and the save mode is `ignore`."""
        self._send("COMPLETE")

    def fail(self, error: BaseException) -> None:
        """Report that the write failed, or that the user interrupted it."""
        self._send("ABORT" if isinstance(error, KeyboardInterrupt) else "FAIL", partial(_describe_failure, error))

    def _send(self, kind: str, describe: Callable[[], _Facets] = _Facets) -> str | None:
        """Send an event. Return None if it was delivered; otherwise warn, and return the text of the error.

        No error is raised, whatever its type: the write has its own result.

        Args:
            kind: the type of the event: START, COMPLETE, FAIL or ABORT.
            describe: returns the facets of the event.
        """
        try:
            event = self._make_event(kind, describe())
            self.sender.send(Message(_NAME, self.job_name, "", f"{self.run_id}@{kind}", json.dumps(event)))
        except Exception as e:
            reason = str(e).strip().partition("\n")[0]
            text = f"{type(e).__name__}: {reason}"
            why = reason if isinstance(e, CallbackFailed) else text
            warn_user(f"the OpenLineage event {kind} of {self.dataset.uri} was not delivered: {why}")
            return text
        return None

    def _make_event(self, kind: str, facets: _Facets) -> dict[str, Any]:
        """Return an event as OpenLineage's JSON."""
        return {
            "eventType": kind,
            "eventTime": clock.utc_now().isoformat(timespec="milliseconds"),
            "producer": _PRODUCER,
            "schemaURL": _EVENT_SCHEMA,
            "run": {"runId": self.run_id, "facets": facets.run},
            "job": {"namespace": self.job_namespace, "name": self.job_name, "facets": {"jobType": _JOB_TYPE}},
            "inputs": [],
            "outputs": [{"namespace": self.dataset.namespace, "name": self.dataset.name, **facets.dataset}],
        }


def _describe_commit(commit: PublishedCommit) -> _Facets:
    """Return the facets of a commit: its instant, the schema of the table, and counts of rows, files and bytes."""
    stats = commit.metadata.stats
    rows = sum(stat.num_inserts + stat.num_update_writes + stat.num_deletes for stat in stats)
    counts = {"rowCount": rows, "size": commit.metadata.bytes_written, "fileCount": len(stats)}
    facets = {"version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=commit.instant)}
    if commit.metadata.schema:
        facets["schema"] = _facet("SchemaDatasetFacet", "1-1-1", fields=_list_fields(commit.metadata.schema))
    statistics = {"outputStatistics": _facet("OutputStatisticsOutputDatasetFacet", "1-0-2", **counts)}
    return _Facets(dataset={"facets": facets, "outputFacets": statistics})


def _describe_failure(error: BaseException) -> _Facets:
    """Return the facets of an error: its class and the first line of its text."""
    message = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return _Facets(run={"errorMessage": _facet("ErrorMessageRunFacet", "1-0-1", message=message, programmingLanguage="python")})


def make_lineage_run(options: Options, uri: str) -> LineageRun | None:
    """Return the run of a write that is about to begin; None if `penstock.openlineage.url` is not set: then no events are sent.

    Args:
        uri: the path of the table, with scheme and bucket if it is remote.

    Raises:
        OptionError: a certificate of the options cannot be read.
    """
    address = options[o.LINEAGE_URL]
    if not address:
        return None
    url, headers = split_credentials(address)
    key = options[o.LINEAGE_API_KEY]
    if key:
        headers["Authorization"] = f"Bearer {key}"
    headers["Content-Type"] = "application/json"
    sender = make_sender(options, url, headers, options[o.LINEAGE_TIMEOUT_SECONDS])
    table_name = uri.rpartition("/")[2]
    job_name = options[o.LINEAGE_JOB] or f"{table_name}.{options[o.OPERATION].value}"
    return LineageRun(sender, clock.new_uuid(), options[o.LINEAGE_NAMESPACE], job_name, name_dataset(uri))


def name_dataset(uri: str) -> Dataset:
    """Return the names of a table in OpenLineage. `s3a` and `s3n` are named `s3`, which is OpenLineage's name of S3.

    Args:
        uri: the path of the table, with scheme and bucket if it is remote.
    """
    location = parse_location(uri)
    if location.scheme in ("", "file"):
        return Dataset("file", location.path, uri)
    scheme = "s3" if location.common_scheme == "s3" else location.scheme
    name = location.path if scheme == "hdfs" else location.path.lstrip("/")
    return Dataset(f"{scheme}://{location.authority}", name, uri)


def _facet(name: str, version: str, **values: Any) -> dict[str, Any]:
    """Return a facet of OpenLineage: values, with the producer and the address of the facet's schema."""
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/facets/{version}/{name}.json#/$defs/{name}", **values}


_JOB_TYPE = _facet("JobTypeJobFacet", "2-0-3", processingType="BATCH", integration="PENSTOCK", jobType="JOB")


def _list_fields(avro_schema: str) -> list[dict[str, str]]:
    """Return the name and type of each column of a table, as the dicts of OpenLineage's schema facet.

    Args:
        avro_schema: the table's schema as JSON. Its types are converted to Spark's.
    """
    from pyspark.sql.types import StructType

    struct = StructType.fromJson(avro_to_spark(json.loads(avro_schema)))
    return [{"name": field.name, "type": field.dataType.simpleString()} for field in struct.fields]

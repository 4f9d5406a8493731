"""A fault at a request of a write, a compaction or a rollback leaves the old table or the new one.

A proxy between Penstock and the store spoils one request, or one and all later ones. Then the next write, which knows nothing of it,
succeeds, returns the right rows and leaves nothing behind. Every request with every fault is an hour and more
(`make test-storage-faults`); otherwise one in many runs, each with another fault.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import product

import pytest

from penstock.errors import CommitUnknown, PenstockError
from tests.crash.scenes import Runner, with_later
from tests.kit.counting_proxy import CountingProxy, Fault
from tests.kit.object_stores import ObjectStore
from tests.kit.plain import damaged_metafiles, orphans, pending, plain_rows
from tests.storage.remote_scenes import COMPACT, FAULTS, REMOTE_SCENES, RemoteStage, make_stage

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

#: One in this many requests of a scene is spoiled, if not all are.
SAMPLE = 30
#: How many faults happen to every request, one after the other; 0: a sample.
FAULTS_PER_REQUEST = int(os.environ.get("PENSTOCK_TEST_FAULTS") or 0)
NAMES = [name for name in FAULTS if re.search(os.environ.get("PENSTOCK_TEST_FAULT_NAMES") or "", name)]


@pytest.fixture(scope="module")
def proxy(moto: ObjectStore) -> Iterator[CountingProxy]:
    with CountingProxy.before(moto.port) as proxy:
        yield proxy


@pytest.fixture(scope="module", params=REMOTE_SCENES)
def stage(
    request: pytest.FixtureRequest,
    runner: Runner,
    moto: ObjectStore,
    proxy: CountingProxy,
    tmp_path_factory: pytest.TempPathFactory,
) -> RemoteStage:
    return make_stage(request.param, runner, moto, proxy, tmp_path_factory.mktemp("remote"))


def cases(stage: RemoteStage) -> Iterator[tuple[int, str, bool]]:
    """Yield (request, fault, whether it lasts): a sample, or so many of every request. Every fault has its turn."""
    kinds = list(product(NAMES, (False, True)))
    first = 7 * list(REMOTE_SCENES).index(stage.name)
    step = 1 if FAULTS_PER_REQUEST else SAMPLE
    requests = stage.requests()
    listings = [at for at, request in enumerate(requests) if request.kind == "list"]
    seen: set[tuple[int, str, bool]] = set()
    for number, first_at in enumerate(range(first % step, len(requests), step)):
        for turn in range(FAULTS_PER_REQUEST or 1):
            fault, lasting = kinds[(first + 5 * number + turn) % len(kinds)]
            at = first_at
            if FAULTS[fault] is Fault.STALE:  # only listings can be old
                at = next((each for each in listings if each >= first_at), listings[-1])
            if (at, fault, lasting) not in seen:
                seen.add((at, fault, lasting))
                yield at, fault, lasting


def test_a_fault_at_a_request_leaves_the_old_table_or_the_new_one(stage: RemoteStage) -> None:
    failures: list[str] = []
    for at, name, lasting in cases(stage):
        path = stage.upload()
        error, request = stage.fail(path, FAULTS[name], at, lasting=lasting)
        what = f"{name}{' for ever' if lasting else ''} at request {at} ({request.kind} {request.path}): {error!r}"
        try:
            check(stage, path, error, what)
        except (AssertionError, Exception) as e:
            failures.append(f"{what}\n{type(e).__name__}: {e}")
    assert failures == [], "\n\n".join(failures)


def check(stage: RemoteStage, path: str, error: Exception | None, what: str) -> None:
    """Check the table after a fault, and after the next write."""
    scene = stage.scene
    states = {"old": sorted(scene.old, key=repr), "new": sorted(scene.new, key=repr)}
    with stage.download(path) as table:
        rows = plain_rows(table)
    found = next((name for name, state in states.items() if rows == state), None)
    assert found, f"{what}: {rows}"
    assert error is None or isinstance(error, PenstockError), what
    if scene.write is not None:
        if not isinstance(error, CommitUnknown):
            assert found == ("new" if error is None else "old"), what
    elif error is None:
        assert rows == states["new"], what
    stage.run_later(path)
    with stage.download(path) as table:
        rows = plain_rows(table)
        if scene.write is None:  # a rollback that was begun is finished by the next write
            assert rows in (with_later(scene.old), with_later(scene.new)), what
        else:
            assert rows == with_later(scene.old if found == "old" else scene.new), what
        left = [file for file in orphans(table) if stage.name != COMPACT or file.endswith(".parquet")]
        assert left == [], what
        assert pending(table) == [], what
        assert damaged_metafiles(table) == [], what

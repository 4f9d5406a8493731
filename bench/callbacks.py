"""Measures what the HTTP callback adds to a commit beyond the server's own answer.

    python -m bench.callbacks [--repeat 100]

Runs the hooks after a commit, as a write does, on a table on disk, and posts the same message by itself, in turns. The server is
on this machine and answers at once. The difference is Penstock's: the message is made, and the outbox is listed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from penstock.commit.run_hooks import run_after_hooks
from penstock.hooks import HookContext, PublishedCommit
from penstock.options import read_options
from penstock.storage import LocalStorage
from penstock.table.config import write_config
from penstock.table.state import TableState, open_table
from penstock.timeline.commit_file import CommitMetadata, WriteStat
from penstock.timeline.instant import Action
from tests.kit.http_servers import Recorder, running_server

INSTANT = "20240101000000000"


def main() -> None:
    """Print the medians."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--repeat", type=int, default=100)
    args = p.parse_args()
    print(f"medians of {args.repeat}, milliseconds\n")
    print("| files of the commit | message | request alone | callback | added | of the callback: this thread on a core |")
    print("|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        table = make_table(Path(folder, "t"), server.url)
        for files in (1, 10, 100, 1_000):
            report(table, server, files, args.repeat)


def report(table: TableState, server: Recorder, files: int, repeat: int) -> None:
    """Time the callback of a commit of some files, and a request with its message."""
    stats = tuple(
        WriteStat(f"f-{number}", "p", f"p/f-{number}_0-0-0_{INSTANT}.parquet", num_inserts=1) for number in range(files)
    )
    commit = PublishedCommit(INSTANT, Action.COMMIT, CommitMetadata(stats, "UPSERT", {"schema": "{}"}))

    def call_back() -> None:
        (outcome,) = run_after_hooks(HookContext(table), commit).outcomes
        assert outcome.error is None, outcome.error

    call_back()
    body = server.received[-1].body

    def post() -> None:
        urllib.request.urlopen(urllib.request.Request(server.url, body), timeout=10).close()

    alone_ms: list[float] = []
    whole_ms: list[float] = []
    core_ms: list[float] = []
    for _ in range(repeat):
        alone_ms.append(time_ms(post, time.perf_counter))
        whole_ms.append(time_ms(call_back, time.perf_counter))
        core_ms.append(time_ms(call_back, time.thread_time))
    alone, whole, core = statistics.median(alone_ms), statistics.median(whole_ms), statistics.median(core_ms)
    print(
        f"| {files:,} | {len(body) / 1024:,.1f} KiB | {alone:.1f} | {whole:.1f} | {whole - alone:.1f} | {core:.1f} |", flush=True
    )


def time_ms(action: Callable[[], None], clock: Callable[[], float]) -> float:
    """Return the milliseconds of an action by a clock: `thread_time` leaves out what other processes of the machine take."""
    begin = clock()
    action()
    return (clock() - begin) * 1000


def make_table(path: Path, url: str) -> TableState:
    """Make an empty table whose writes call back to an address."""
    config = {"hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "6"}
    write_config(LocalStorage(), str(path), config, new=True)
    options = {"hoodie.write.commit.callback.on": True, "hoodie.write.commit.callback.http.url": url}
    return open_table(str(path), read_options(options))


if __name__ == "__main__":
    main()

"""The outbox after a crash: the message of a commit whose process was killed before it could be sent is delivered by the services."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.kit.http_servers import running_server
from tests.kit.servers import ROOT
from tests.unit.cli.test_services import run_penstock

WRITER = """
import os, signal, sys
import penstock
path, url = sys.argv[1:]
spark = penstock.session(master="local[1]")

@penstock.commit_callback("die")
def die(notice):
    os.kill(os.getpid(), signal.SIGKILL)

options = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.operation": "bulk_insert",
    "penstock.commit.callbacks": "die,http",
    "penstock.callback.outbox": "always",
    "hoodie.write.commit.callback.http.url": url,
}
spark.sql("select 'a' as id, 1 as n").write.format("hudi").options(**options).save(path)
"""


def test_the_services_send_the_message_of_a_writer_that_was_killed_after_its_commit(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    with running_server() as server:
        command = [sys.executable, "-W", "ignore", "-c", WRITER, path, server.url]
        died = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]
        assert server.received == []
        options = ("-o", "penstock.commit.callbacks=http", "-o", f"hoodie.write.commit.callback.http.url={server.url}")
        code, text = run_penstock("services", "run", path, "--once", *options)
        assert (code, "1 notice sent" in text) == (0, True), text
        (request,) = server.received
    (commit,) = Path(path, ".hoodie").glob("*.commit")
    assert request.json["commitTime"] == commit.stem
    assert request.headers["Idempotency-Key"] == f"trips@{commit.stem}"
    assert list(Path(path, ".hoodie", ".penstock", "outbox").iterdir()) == []

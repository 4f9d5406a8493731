"""The HTTP callback against a real server, on tables in memory: the message, failures, retries, the outbox."""

from __future__ import annotations

import base64
import ssl
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.commit.run_hooks import check_hooks, run_after_hooks, run_before_hooks
from penstock.errors import MessageTooLarge, OptionError, Unsupported
from penstock.hooks import HookContext, PendingCommit, PublishedCommit, send_notices
from penstock.hooks.callbacks import list_senders, make_callbacks
from penstock.options import read_options
from penstock.options.callback import CALLBACK_OUTBOX
from penstock.progress import Stages
from penstock.registered.hooks import COMMIT_CALLBACKS
from penstock.services.notices import SEND_NOTICES
from penstock.storage import walk
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat
from penstock.timeline.instant import Action
from tests.contract.test_hooks import check_hook_may_run_twice
from tests.kit.counting import Account, CountingStorage
from tests.kit.http_servers import Recorder, answer_garbage, answer_with, running_server
from tests.kit.servers import free_port
from tests.unit.services.histories import History, at

LOG_STAT = WriteStat(
    "g-1",
    "p",
    "p/.g-1_1.log.1_0-0-0",
    num_update_writes=2,
    log={"logVersion": 1, "logOffset": 0, "baseFile": "b", "logFiles": [".g-1_1.log.1_0-0-0"], "recordsStats": {"val": None}},
)
METADATA = CommitMetadata((WriteStat("g-0", "p", "p/g-0_x.parquet", num_inserts=3), LOG_STAT), "UPSERT", {"schema": "{}"})
FAST = {"penstock.callback.backoff.seconds": "0.001", "hoodie.write.commit.callback.http.timeout.seconds": "10"}
#: The keys of a write stat in Hudi's message.
STAT_KEYS = {
    "fileId", "path", "cdcStats", "prevCommit", "numWrites", "numDeletes", "numUpdateWrites", "numInserts", "totalWriteBytes",
    "totalWriteErrors", "tempPath", "partitionPath", "totalLogRecords", "totalLogFilesCompacted", "totalLogSizeCompacted",
    "totalUpdatedRecordsCompacted", "totalLogBlocks", "totalCorruptLogBlock", "totalRollbackBlocks", "fileSizeInBytes",
    "minEventTime", "maxEventTime", "runtimeStats",
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[Recorder]:
    with running_server() as recorder:
        yield recorder


def table_for(url: str, history: History | None = None, **options: str) -> TableState:
    """Return a table in memory with one commit, whose writes call back to an address."""
    table = (history or History().commit(1, ["p/g-0"])).table()
    given = {"hoodie.write.commit.callback.on": "true", "hoodie.write.commit.callback.http.url": url, **FAST}
    more = {key.replace("_", "."): value for key, value in options.items()}
    return TableState(table.storage, table.base_path, table.config, read_options({**given, **more}), table.timeline)


def commit(number: int = 1, operation: str = "UPSERT") -> PublishedCommit:
    metadata = CommitMetadata(METADATA.stats, operation, METADATA.extra)
    return PublishedCommit(at(number), Action.COMMIT, metadata)


def after(table: TableState, number: int = 1, operation: str = "UPSERT") -> str | None:
    """Run the hooks after a commit; return the error of the callback."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        (outcome,) = run_after_hooks(HookContext(table), commit(number, operation)).outcomes
    assert outcome.hook == "http_callback"
    assert outcome.seconds > 0
    return outcome.error


def waiting(table: TableState) -> list[str]:
    return [file.name for file in walk(table.storage, f"{table.base_path}/.hoodie/.penstock")]


def test_the_message_has_the_fields_and_headers_of_hudi_with_their_values(server: Recorder) -> None:
    table = table_for(f"{server.url}/commits?x=1", hoodie_write_commit_callback_http_custom_headers="X-Team: a:b ;X-Two:2")
    assert after(table) is None
    (request,) = server.received
    assert (request.method, request.path) == ("POST", "/commits?x=1")
    assert request.headers["Content-Type"] == "application/json; charset=UTF-8"
    assert request.headers["X-Team"] == "a:b"
    assert request.headers["X-Two"] == "2"
    named = {name.lower(): value for name, value in request.headers.items()}
    assert named["hudi-callback-key"] == "hudi_write_commit_http_callback"
    assert named["idempotency-key"] == f"{table.config.name}@{at(1)}"
    message = request.json
    assert list(message) == ["commitTime", "tableName", "basePath", "hoodieWriteStat", "commitActionType", "extraMetadata"]
    assert (message["commitTime"], message["basePath"], message["commitActionType"]) == (at(1), table.base_path, "commit")
    assert message["extraMetadata"] == {"schema": "{}"}
    base, log = message["hoodieWriteStat"]
    assert base.keys() == STAT_KEYS
    assert log.keys() == STAT_KEYS | {"logVersion", "logOffset", "baseFile", "logFiles", "columnStats"}
    assert (base["numInserts"], log["numUpdateWrites"], log["columnStats"]) == (3, 2, None)


def test_a_callback_takes_one_request_and_one_listing(server: Recorder, tmp_path: Path) -> None:
    table = table_for(server.url)
    counting = CountingStorage(str(tmp_path / "calls"), table.storage)
    assert after(replace(table, storage=counting)) is None
    assert len(server.received) == 1
    assert Account(counting.file).notes == [["list", f"{table.base_path}/.hoodie/.penstock/outbox"]]


def test_the_form_of_hudi_leaves_the_values_of_options_out(server: Recorder) -> None:
    assert after(table_for(server.url, penstock_callback_message="hudi")) is None
    message = server.received[0].json
    assert message["commitActionType"] == message["extraMetadata"] == {"empty": False, "present": True}
    assert message["hoodieWriteStat"][1]["columnStats"] == {"empty": True, "present": False}


@pytest.mark.parametrize("operation", ["COMPACT", "CLUSTER", "LOG_COMPACT"])
def test_a_commit_of_a_table_service_is_not_announced(server: Recorder, operation: str) -> None:
    assert after(table_for(server.url), operation=operation) is None
    assert server.received == []


@pytest.mark.parametrize(
    ("answer", "attempts", "words"),
    [
        (answer_with(500), 3, "the server answered 500 (3 attempts)"),
        (answer_with(401), 1, "the server answered 401"),
        (answer_with(404), 1, "the server answered 404"),
        (answer_with(302), 1, "the server answered 302"),
        (answer_with(429), 3, "the server answered 429 (3 attempts)"),
        (answer_garbage, 3, "the answer is not HTTP"),
    ],
    ids=["500", "401", "404", "302", "429", "garbage"],
)
def test_a_server_that_does_not_accept_the_message_is_a_warning_and_the_message_waits(
    server: Recorder, answer: Any, attempts: int, words: str
) -> None:
    server.answer = answer
    table = table_for(f"{server.url}/in?token=s3cret")
    with pytest.warns(RuntimeWarning, match="is done, do not run it again; but hook 'http_callback' failed") as caught:
        (outcome,) = run_after_hooks(HookContext(table), commit()).outcomes
    assert words in (outcome.error or "")
    assert "penstock services run" in (outcome.error or "")
    assert "s3cret" not in f"{outcome.error}{caught[0].message}"
    assert len(server.received) == attempts
    assert {dict(r.headers)["Idempotency-Key"] for r in server.received} == {f"{table.config.name}@{at(1)}"}
    assert waiting(table) == [f"{at(1)}.http.json"]


def test_a_server_that_does_not_answer_costs_no_more_than_the_time_out(server: Recorder) -> None:
    server.answer = lambda handler: server.over.wait(20) and None
    table = table_for(server.url, hoodie_write_commit_callback_http_timeout_seconds="1")
    assert "no answer within 1 s" in (after(table) or "")
    assert len(server.received) == 1  # the first attempt used the time up
    assert waiting(table) == [f"{at(1)}.http.json"]


def test_a_server_that_sends_a_byte_now_and_then_costs_no_more_than_the_time_out(server: Recorder) -> None:
    def drip(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not server.over.wait(0.05):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    server.answer = drip
    table = table_for(server.url, hoodie_write_commit_callback_http_timeout_seconds="1")
    assert "no answer within 1 s" in (after(table) or "")
    assert len(server.received) == 1


def test_a_message_that_is_too_large_for_the_server_holds_no_later_one_back(server: Recorder) -> None:
    history = History().commit(1, ["p/g-0"])
    server.answer = answer_with(413)
    table = table_for(server.url, history)
    assert "are too many (413)" in (after(table) or "")
    assert len(server.received) == 1
    history.commit(2, ["p/g-0"])
    server.answer = answer_with(413, 200)  # the old message is refused again, the new one accepted
    assert "are too many (413)" in (after(table_for(server.url, history), 2) or "")
    assert [request.json["commitTime"] for request in server.received[1:]] == [at(1), at(2)]
    assert waiting(table) == [f"{at(1)}.http.json"]
    server.answer = answer_with(413)
    with pytest.raises(MessageTooLarge):
        SEND_NOTICES.run_due(None, table, Stages("", "off"))
    server.answer = answer_with(200)
    assert SEND_NOTICES.run_due(None, table, Stages("", "off")) == "1 notice sent"


def test_a_write_sends_waiting_messages_for_a_limited_time_and_keeps_the_order(
    server: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History()
    server.answer = answer_with(503)
    for number in (1, 2):
        history.commit(number, ["p/g-0"])
        after(table_for(server.url, history), number)
    server.answer = answer_with(200)
    server.received.clear()
    history.commit(3, ["p/g-0"])
    monkeypatch.setattr(send_notices, "_WAITING_S", 0.0)
    assert "2 older messages were not sent within 0 s" in (after(table_for(server.url, history), 3) or "")
    assert server.received == []
    assert waiting(history.table()) == [f"{at(number)}.http.json" for number in (1, 2, 3)]
    assert SEND_NOTICES.run_due(None, table_for(server.url, history), Stages("", "off")) == "3 notices sent"
    assert [request.json["commitTime"] for request in server.received] == [at(1), at(2), at(3)]


def test_a_server_that_is_down_is_reported_without_user_and_password() -> None:
    table = table_for(f"http://ann:pa55@127.0.0.1:{free_port()}/in")
    error = after(table) or ""
    assert "Connection refused" in error
    assert "ann" not in error
    assert "pa55" not in error
    assert "pa55" not in repr(table.options)
    (file,) = walk(table.storage, f"{table.base_path}/.hoodie/.penstock")
    assert b"pa55" not in table.storage.read(file.path)


def test_a_failure_that_passes_is_repeated_until_the_message_is_accepted(server: Recorder) -> None:
    server.answer = answer_with(503, 503, 200)
    table = table_for(server.url)
    assert after(table) is None
    assert len(server.received) == 3
    assert waiting(table) == []


def test_user_and_password_of_the_address_are_sent_as_basic_authentication(server: Recorder) -> None:
    assert after(table_for(server.url.replace("//", "//ann:p%40ss@"))) is None
    assert server.received[0].headers["Authorization"] == "Basic " + base64.b64encode(b"ann:p@ss").decode()
    assert "ann" not in server.received[0].headers["Host"]


def test_the_next_write_sends_what_waits_first(server: Recorder) -> None:
    history = History().commit(1, ["p/g-0"])
    server.answer = answer_with(404)
    after(table_for(server.url, history))
    history.commit(2, ["p/g-0"])
    server.received.clear()
    assert "404" in (after(table_for(server.url, history), 2) or "")  # the old message fails: the new one is not tried
    assert len(server.received) == 1
    assert waiting(history.table()) == [f"{at(1)}.http.json", f"{at(2)}.http.json"]
    history.commit(3, ["p/g-0"])
    server.received.clear()
    server.answer = answer_with(200)
    assert after(table_for(server.url, history), 3) is None
    assert [request.json["commitTime"] for request in server.received] == [at(1), at(2), at(3)]
    assert waiting(history.table()) == []


def test_the_table_service_sends_what_waits(server: Recorder) -> None:
    server.answer = answer_with(404)
    table = table_for(server.url)
    after(table)
    assert SEND_NOTICES.may_be_due(table)
    assert not SEND_NOTICES.may_be_due(History().commit(1, ["p/g-0"]).table())
    server.answer = answer_with(200)
    assert SEND_NOTICES.run_due(None, table, Stages("", "off")) == "1 notice sent"
    assert SEND_NOTICES.run_due(None, table, Stages("", "off")) is None
    assert len(server.received) == 2


def test_a_message_stored_before_the_commit_outlives_a_crash_and_is_not_sent_for_an_undone_commit(server: Recorder) -> None:
    history = History().commit(1, ["p/g-0"])
    options = {CALLBACK_OUTBOX.key.replace(".", "_"): "always"}
    for number in (2, 3, 4):  # stored before the commit; the process dies before it sends them
        run_before_hooks(
            HookContext(table_for(server.url, history, **options)), PendingCommit(at(number), Action.COMMIT, METADATA)
        )
    history.commit(2, ["p/g-0"])  # the second is committed, the third undone, the fourth under way
    history.instant(f"{at(4)}.commit.requested", b"")
    table = table_for(server.url, history, **options)
    assert SEND_NOTICES.run_due(None, table, Stages("", "off")) == "1 notice sent"
    assert [request.json["commitTime"] for request in server.received] == [at(2)]
    assert waiting(table) == [f"{at(4)}.http.json"]


def test_a_message_stored_before_an_overwrite_has_the_path_of_the_table_after_it(server: Recorder) -> None:
    table = table_for(server.url, penstock_callback_outbox="always")
    run_before_hooks(HookContext(table, final_path="/lake/trips"), PendingCommit(at(1), Action.COMMIT, METADATA))
    assert SEND_NOTICES.run_due(None, table, Stages("", "off")) == "1 notice sent"
    assert [request.json["basePath"] for request in server.received] == ["/lake/trips"]


def test_an_outbox_that_is_off_stores_nothing(server: Recorder) -> None:
    server.answer = answer_with(500)
    table = table_for(server.url, penstock_callback_outbox="off")
    assert "500" in (after(table) or "")
    assert waiting(table) == []


def test_callbacks_are_made_in_the_order_of_the_options(server: Recorder) -> None:
    penstock.commit_callback("audit")(lambda notice: None)
    table = table_for(server.url, hoodie_write_commit_callback_on="false", penstock_commit_callbacks="audit,http")
    try:
        assert list(make_callbacks(HookContext(table))) == ["audit", "http_callback"]
        assert list_senders(table.options) == ("http",)
    finally:
        del COMMIT_CALLBACKS.registered["audit"]


def test_the_callback_may_run_twice(server: Recorder) -> None:
    table = table_for(server.url)
    (hook,) = make_callbacks(HookContext(table)).values()
    off = TableState(table.storage, table.base_path, table.config, read_options({}), table.timeline)
    check_hook_may_run_twice(
        hook, HookContext(off), commit(), lambda: {request.headers["Idempotency-Key"] for request in server.received}
    )
    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("url", "example.com/in"),
        ("url", "ftp://example.com/in"),
        ("url", "http:///in"),
        ("url", "http://host:0/"),
        ("url", "http://host:port/"),
        ("url", "http://ho st/"),
        ("custom.headers", "NoColon"),
        ("custom.headers", "A b:c"),
        ("custom.headers", "A:b\r\nEvil: c"),
        ("timeout.seconds", "0"),
    ],
)
def test_wrong_options_are_named_before_the_write(key: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"option 'hoodie.write.commit.callback.http.{key}' is .*; expected"):
        read_options({f"hoodie.write.commit.callback.http.{key}": value})


def test_a_missing_address_and_an_unknown_class_are_named_before_the_write(server: Recorder) -> None:
    table = table_for(server.url)
    options = read_options({"hoodie.write.commit.callback.on": "true"})
    with pytest.raises(OptionError, match=r"needs hoodie\.write\.commit\.callback\.http\.url"):
        check_hooks(HookContext(TableState(table.storage, table.base_path, table.config, options)))
    for name in ("com.acme.Callback", "org.apache.hudi.utilities.callback.pulsar.HoodieWriteCommitPulsarCallback"):
        with pytest.raises(Unsupported, match="register a Python function under this name with @penstock.commit_callback"):
            read_options({"hoodie.write.commit.callback.on": "true", "hoodie.write.commit.callback.class": name})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine that is its own authority. The file `both.pem` next to it also has the key."""
    folder = tmp_path_factory.mktemp("certificate")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    try:
        arguments = [*command.split(), "-keyout", "key.pem", "-out", "cert.pem"]
        subprocess.run(arguments, cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    (folder / "both.pem").write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return folder / "cert.pem"


def test_https_trusts_the_authority_that_the_options_name_and_no_other(certificate: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate.parent / "both.pem")
    with running_server(tls) as server:
        assert "CERTIFICATE_VERIFY_FAILED" in (after(table_for(server.url)) or "")
        assert server.received == []
        assert after(table_for(server.url, penstock_callback_http_ca_file=str(certificate))) is None
        assert len(server.received) == 1
    with pytest.raises(OptionError, match=r"penstock\.callback\.http\.ca\.file=/nowhere cannot be read"):
        check_hooks(HookContext(table_for("https://127.0.0.1/", penstock_callback_http_ca_file="/nowhere")))


def test_a_server_that_asks_for_a_certificate_gets_that_of_the_writer(certificate: Path) -> None:
    both = str(certificate.parent / "both.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(both)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(certificate)
    with running_server(tls) as server:
        assert after(table_for(server.url, penstock_callback_http_ca_file=str(certificate))) is not None
        assert server.received == []
        options = {"penstock_callback_http_ca_file": str(certificate), "penstock_callback_http_cert_file": both}
        assert after(table_for(server.url, **options)) is None
        assert len(server.received) == 1


def test_the_api_key_of_the_options_is_sent(server: Recorder) -> None:
    table = table_for(server.url)
    key = {"hoodie.write.commit.callback.http.api.key": "s3cret_Key"}
    given = read_options({**table.options.raw, **key})
    assert after(TableState(table.storage, table.base_path, table.config, given, table.timeline)) is None
    headers = {name.lower(): value for name, value in server.received[0].headers.items()}
    assert headers["hudi-callback-key"] == "s3cret_Key"
    assert "s3cret_Key" not in repr(given)

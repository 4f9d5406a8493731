"""The Kafka callback with a real Apache Kafka: the message, missing topics, wrong passwords, and options that are wrong."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.commit.run_hooks import check_hooks, run_after_hooks
from penstock.errors import OptionError
from penstock.hooks import HookContext
from penstock.hooks.kafka_callback import make_kafka_sender
from penstock.hooks.outbox import Message
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.notices import SEND_NOTICES
from penstock.table.state import TableState
from tests.kit.kafka import PASSWORD, USER, Kafka
from tests.kit.servers import free_port
from tests.table.tables import BULK, SIX, timeline, trips, write
from tests.unit.hooks.test_http_callback import commit, waiting
from tests.unit.services.histories import History, at

PREFIX = "hoodie.write.commit.callback."
ON = {f"{PREFIX}on": "true", f"{PREFIX}class": "org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback"}


def options_for(address: str, topic: str, **client: str) -> dict[str, str]:
    """Return the options of a callback. Further options are the client's, with `_` for a dot."""
    given = {f"{PREFIX}kafka.bootstrap.servers": address, f"{PREFIX}kafka.topic": topic}
    return {**ON, **given, **{f"{PREFIX}kafka.{key.replace('_', '.')}": value for key, value in client.items()}}


def table_with(options: dict[str, str]) -> TableState:
    """Return a table in memory with one commit."""
    table = History().commit(1, ["p/g-0"]).table()
    return TableState(table.storage, table.base_path, table.config, read_options(options), table.timeline)


def table_with_storage(table: TableState, options: dict[str, str]) -> TableState:
    """Return a table with other options."""
    return replace(table, options=read_options(options))


def after(table: TableState) -> str | None:
    """Run the hooks after a commit; return the error of the callback."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        (outcome,) = run_after_hooks(HookContext(table), commit()).outcomes
    assert outcome.hook == "kafka_callback"
    return outcome.error


def test_every_commit_of_a_write_is_a_message_with_the_key_and_value_of_hudi(spark: Any, kafka: Kafka, table_path: str) -> None:
    kafka.create_topic("commits", partitions=3)
    options = options_for(kafka.address, "commits", partition="2", linger_ms="0")
    write(trips(spark, *SIX), table_path, {**BULK, **options})
    done = penstock.Table.open(table_path, spark).upsert(trips(spark, SIX[0]), options)
    assert list(done.follow_ups)[-1].result == "done"
    (first_partition, first_key, first), (_, _, second) = kafka.read("commits", 2)
    assert (first_partition, first_key) == (2, "trips")
    assert [json.loads(value)["commitActionType"] for value in (first, second)] == ["commit", "commit"]
    assert json.loads(second)["commitTime"] == done.instant


def test_a_topic_that_does_not_exist_is_reported_and_the_message_is_sent_when_it_does(kafka: Kafka) -> None:
    table = table_with(options_for(kafka.address, "later"))
    error = after(table) or ""
    assert "Kafka topic later" in error
    assert "Unknown topic" in error
    assert "penstock services run" in error
    assert waiting(table) == [f"{at(1)}.kafka.json"]
    kafka.create_topic("later")
    assert after(table) is None
    assert waiting(table) == []
    assert [json.loads(value)["commitTime"] for _, _, value in kafka.read("later", 1)] == [at(1)]


def test_a_wrong_password_is_reported_and_the_right_one_delivers(kafka: Kafka) -> None:
    kafka.create_topic("guarded")
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": USER}
    error = after(table_with(options_for(kafka.sasl_address, "guarded", **login, sasl_password="wr0ng"))) or ""
    assert "Authentication failed" in error
    assert "wr0ng" not in error
    assert after(table_with(options_for(kafka.sasl_address, "guarded", **login, sasl_password=PASSWORD))) is None
    assert len(kafka.read("guarded", 1)) == 1


def test_brokers_that_are_down_cost_no_more_than_the_time_out() -> None:
    options = options_for(f"127.0.0.1:{free_port()}", "commits") | {"penstock.callback.kafka.timeout.seconds": "1"}
    table = table_with(options)
    assert "Connection refused" in (after(table) or "")
    assert waiting(table) == [f"{at(1)}.kafka.json"]


def test_tls_trusts_the_authority_that_the_options_name_and_no_other(kafka: Kafka) -> None:
    kafka.create_topic("encrypted")
    tls = {**options_for(kafka.tls_address, "encrypted", security_protocol="ssl"), "penstock.callback.kafka.timeout.seconds": "3"}
    assert "certificate verify failed" in (after(table_with(tls)) or "")
    assert after(table_with({**tls, f"{PREFIX}kafka.ssl.ca.location": str(kafka.certificate)})) is None
    assert len(kafka.read("encrypted", 1)) == 1


def test_acks_and_retries_reach_the_client() -> None:
    for given, wanted in (({}, ("all", 3)), ({"acks": "-1", "retries": "7"}, ("-1", 7))):
        settings = make_kafka_sender(read_options(options_for("localhost:9092", "t", **given))).settings
        assert (settings["acks"], int(settings["retries"])) == wanted


def test_a_message_that_is_too_large_names_the_option_and_holds_no_later_one_back(kafka: Kafka) -> None:
    kafka.create_topic("small")
    table = table_with(options_for(kafka.address, "small", message_max_bytes="1000"))
    error = after(table) or ""
    assert "bytes is too large; raise hoodie.write.commit.callback.kafka.message.max.bytes" in error
    assert waiting(table) == [f"{at(1)}.kafka.json"]
    assert SEND_NOTICES.run_due(None, table_with_storage(table, options_for(kafka.address, "small")), Stages("", "off")) == (
        "1 notice sent"
    )
    assert len(kafka.read("small", 1)) == 1


def test_missing_and_wrong_options_are_found_before_the_write() -> None:
    for options, words in (
        (ON, r"needs hoodie\.write\.commit\.callback\.kafka\.bootstrap\.servers"),
        (ON | {f"{PREFIX}kafka.bootstrap.servers": "localhost:9092"}, r"needs hoodie\.write\.commit\.callback\.kafka\.topic"),
        (options_for("localhost:9092", "t", no_such_setting="1"), 'No such configuration property: "no.such.setting"'),
        (
            options_for("localhost:9092", "t", sasl_mechanism="NONE", security_protocol="sasl_plaintext"),
            "Unsupported SASL mechanism: NONE",
        ),
        (options_for("localhost:9092", "t", security_protocol="ssl", ssl_ca_location="/nowhere"), "ssl.ca.location failed"),
    ):
        with pytest.raises(OptionError, match=words):
            check_hooks(HookContext(table_with(options)))


def test_options_of_the_client_are_known_and_passwords_are_hidden(recwarn: pytest.WarningsRecorder) -> None:
    options = read_options(options_for("localhost:9092", "t", sasl_password="s3cret"))
    assert "s3cret" not in repr(options)
    assert [str(warning.message) for warning in recwarn] == []


def test_a_second_service_compacts_the_table_when_the_notices_come(spark: Any, kafka: Kafka, table_path: str) -> None:
    from examples.compact_on_notice import compact_on_notices

    kafka.create_topic("to-compact")
    options = options_for(kafka.address, "to-compact")
    merge_on_read = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    write(trips(spark, *SIX), table_path, {**BULK, **merge_on_read, **options})
    table = penstock.Table.open(table_path, spark)
    table.upsert(trips(spark, ("a", "berlin", 9, 9.5)), options)
    (instant,) = compact_on_notices(kafka.address, "to-compact", every=2, rounds=1)
    assert f"{instant}.commit" in timeline(table_path)
    assert table.read(columns=["fare"]).where("id = 'a'").count() == 1


def test_the_second_service_loses_no_notice_of_another_table_and_no_table_waits_for_a_broken_one(
    spark: Any, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from examples.compact_on_notice import compact_on_notices

    kafka.create_topic("two-tables")
    options = options_for(kafka.address, "two-tables")
    merge_on_read = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    sender = make_kafka_sender(read_options(options))
    for number in range(2):
        body = json.dumps({"basePath": str(tmp_path / "missing"), "commitTime": at(number)})
        sender.send(Message("kafka", "missing", at(number), f"missing@{at(number)}", body))
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    for path in (one, two):
        write(trips(spark, *SIX), path, {**BULK, **merge_on_read, **options})
    for path in (two, one):
        penstock.Table.open(path, spark).upsert(trips(spark, ("a", "berlin", 9, 9.5)), options)
    (instant,) = compact_on_notices(kafka.address, "two-tables", every=2, rounds=1)
    assert f"{instant}.commit" in timeline(two)
    assert f"compacting {tmp_path}/missing failed" in capsys.readouterr().err
    # A new process reads the first notice of table one again, although later notices of table two are done.
    (instant,) = compact_on_notices(kafka.address, "two-tables", every=2, rounds=1)
    assert f"{instant}.commit" in timeline(one)

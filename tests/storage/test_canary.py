"""No secret of a storage is shown: not in log lines, errors, files of the table, plans, the UI or any text of a value.

The secret is a word that occurs nowhere else. It is given in each of the three ways, and then searched for everywhere.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.storage import explain_storage
from tests.kit.object_stores import ACCESS_KEY, CANARY, ObjectStore
from tests.storage.test_tables import FIRST, hoodie, write

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore:Spark cannot read")]

WAYS = ("session", "environment", "option")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def given(spark: Any, moto: ObjectStore, way: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Give the keys of the store in one way. Yield the options that reads and writes need for it."""
    endpoint = {key: value for key, value in moto.settings.items() if "key" not in key}
    secrets = {key: value for key, value in moto.settings.items() if "key" in key}
    for key, value in (endpoint | (secrets if way == "session" else {})).items():
        spark.conf.set(key, value)
    if way == "environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    if way == "option":
        yield {"penstock.storage.s3.access.key": ACCESS_KEY, "penstock.storage.s3.secret.key": CANARY}
    else:
        yield {}
    for key in moto.settings:
        spark.conf.unset(key)


def test_a_secret_is_shown_nowhere(
    spark: Any,
    moto: ObjectStore,
    way: str,
    given: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    recwarn: pytest.WarningsRecorder,
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "py4j")  # below that py4j logs what it sends to the JVM, word by word
    path = moto.path()
    texts: dict[str, str] = {}
    for kind in ("MERGE_ON_READ", "COPY_ON_WRITE"):
        table_path = f"{path}/{kind}"
        options = {**hoodie(kind), **given, "penstock.progress": "on"}
        write(spark, table_path, FIRST, options)
        write(spark, table_path, [("a", "paris", 2, 7.5)], options)
        frame = spark.read.format("hudi").options(**given).load(table_path)
        frame.explain(True)
        assert frame.where("city = 'paris'").count() == 2
        frame.createOrReplaceTempView("canary")
        spark.sql("explain extended select * from canary").show(truncate=False)
        table = penstock.Table.open(table_path, options=given)
        state = table._state({})
        values = {"table": table, "state": state, "options": state.options, "storage": state.storage, "history": table.history()}
        for name, value in values.items():
            texts[f"repr of the {name} ({kind})"] = f"{value!r} {value}"
        texts[f"explain_write ({kind})"] = str(penstock.explain_write(frame, table_path, options))
        for file in state.storage.list_tree(state.base_path):
            texts[f"file {file.path}"] = state.storage.read(file.path).decode(errors="replace")
    texts |= {f"error of {name}": text for name, text in errors_of(spark, path, given).items()}
    texts["settings as they are explained"] = explain_storage(path, given)
    printed = capfd.readouterr()
    texts |= {"output": printed.out, "errors that were printed": printed.err, "log": caplog.text}
    texts["warnings"] = "\n".join(str(warning.message) for warning in recwarn.list)
    texts["settings in Spark's UI"] = ui_settings(spark, is_ours=way != "session")
    assert [name for name, text in texts.items() if CANARY in text] == []


def errors_of(spark: Any, path: str, given: dict[str, str]) -> dict[str, str]:
    """Return the tracebacks of what goes wrong: each with all causes."""
    options = {**hoodie("COPY_ON_WRITE"), **given}
    wrong: dict[str, Callable[[], object]] = {
        "no table": lambda: spark.read.format("hudi").options(**given).load(f"{path}/none"),
        "no bucket": lambda: write(spark, "s3a://no-such-bucket/table", FIRST, options),
        "no column": lambda: write(
            spark, f"{path}/other", FIRST, {**options, "hoodie.datasource.write.recordkey.field": "nothing"}
        ),
        "a wrong option": lambda: write(spark, f"{path}/other", FIRST, {**options, "penstock.storage.timeout.ms": "soon"}),
        "keys in a path": lambda: write(spark, f"s3a://{ACCESS_KEY}:{CANARY}@bucket/table", FIRST, options),
    }
    texts: dict[str, str] = {}
    for name, action in wrong.items():
        with pytest.raises(PenstockError) as caught:
            action()
        texts[name] = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    return texts


def ui_settings(spark: Any, *, is_ours: bool) -> str:
    """Return the settings of the session, which Spark's UI lists; nothing if the user has put the secret there."""
    listed = dict(spark.sql("set").collect()) if is_ours else {}
    return "\n".join(f"{key}={value}" for key, value in listed.items())

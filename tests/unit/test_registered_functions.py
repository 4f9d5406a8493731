"""Names of registered functions: valid names, entry points, and functions on their way to workers."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import registered_functions
from penstock.errors import OptionError
from penstock.merge.make_merger import make_merger
from penstock.options import PAYLOAD_CLASS, read_options
from penstock.registered_functions import Kind, Registered


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registered_functions, "_registered", {})
    registered_functions._list_entry_points.cache_clear()
    yield
    registered_functions._list_entry_points.cache_clear()


def newest(old: Any, new: Any) -> Any:
    return new


def test_a_function_is_found_under_its_name_and_stays_a_plain_function() -> None:
    assert registered_functions.payload("newest")(newest) is newest
    assert registered_functions.find_registered("newest") == Registered("newest", Kind.PAYLOAD, newest)
    assert registered_functions.find_registration(newest) == registered_functions.find_registered("newest")
    assert registered_functions.find_registered("oldest") is None


@pytest.mark.parametrize("name", ["", "a b", "a,b", "1st", "penstock.aggregate", "org.apache.hudi.common.model.MyPayload"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="cannot name a merger"):
        registered_functions.merger(name)


def test_options_take_registered_names_and_say_how_to_register_others() -> None:
    with pytest.raises(OptionError, match=r"newest.*register your own.*@penstock.payload"):
        read_options({PAYLOAD_CLASS.key: "newest"})
    registered_functions.payload("newest")(newest)
    assert read_options({PAYLOAD_CLASS.key: "newest"})[PAYLOAD_CLASS] == "newest"
    assert read_options({PAYLOAD_CLASS.key: "EventTimeAvroPayload"})[PAYLOAD_CLASS].startswith("org.apache.hudi.")


def test_an_installed_package_declares_functions_that_are_imported_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_rules.py").write_text("def newest(old, new):\n    return new\n")
    installed = tmp_path / "their_rules-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: their-rules\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[penstock.mergers]\ntheirs = their_rules:newest\n[penstock.payloads]\nbroken = no.such.module:f\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registered_functions.is_registered("broken")
    assert registered_functions.is_registered("theirs")
    assert "their_rules" not in sys.modules
    found = registered_functions.find_registered("theirs")
    assert found is not None
    assert (found.kind, found.function.__module__) == (Kind.MERGER, "their_rules")
    sys.modules.pop("their_rules")
    with pytest.raises(OptionError, match=r"payload 'broken' is declared as 'no.such.module:f'.*ModuleNotFoundError: No module"):
        make_merger("broken")


@pytest.mark.parametrize(
    "name", ["their_rules.newest", "their_rules:newest", "their_rules", "org.apache.hudi.their_rules:newest"]
)
def test_a_name_in_a_table_or_an_option_imports_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_rules.py").write_text("def newest(old, new):\n    return new\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OptionError, match="is not known here: register a function under this name first"):
        make_merger(name)
    with pytest.raises(OptionError, match="register your own"):
        read_options({PAYLOAD_CLASS.key: name})
    assert "their_rules" not in sys.modules


def test_a_function_reaches_workers_that_do_not_have_its_package(tmp_path: Path) -> None:
    package = tmp_path / "theirs"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rates.py").write_text("RATE = 2\n\ndef convert(n):\n    return n * RATE\n")
    (package / "payloads.py").write_text(
        "from theirs.rates import convert\n\ndef merge(old, new):\n    return {**new, 'n': convert(new['n'])}\n"
    )
    pack = """
        import pickle, sys
        sys.path.insert(0, sys.argv[1])
        from theirs.payloads import merge
        from penstock.registered_functions import Kind, Registered
        sys.stdout.buffer.write(pickle.dumps(Registered("x", Kind.PAYLOAD, merge)))
    """
    data = subprocess.run([sys.executable, "-c", textwrap.dedent(pack), str(tmp_path)], capture_output=True, check=True).stdout
    found = pickle.loads(data)
    assert found.name == "x"
    assert found.function(None, {"n": 21}) == {"n": 42}
    assert "theirs" not in sys.modules


def test_a_function_that_cannot_be_pickled_is_refused_with_its_name() -> None:
    lock = threading.Lock()

    def locked(old: Any, new: Any) -> Any:
        with lock:
            return new

    with pytest.raises(OptionError, match="payload 'locked' cannot be sent to workers.*lock"):
        Registered("locked", Kind.PAYLOAD, locked).dump()

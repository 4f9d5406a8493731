"""Registries of functions of users: valid names, entry points, and functions on their way to workers."""

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

import penstock
from penstock.errors import OptionError
from penstock.merge.make_merger import make_merger
from penstock.options import PAYLOAD_CLASS, read_options
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.registered.hooks import COMMIT_CALLBACKS, VALIDATORS, find_validator
from penstock.registered.locks import LOCK_PROVIDERS
from penstock.registered.registry import Kind, Registered, Registry, list_entry_points
from penstock.registered.sync_tools import SYNC_TOOLS

REGISTRIES = {
    Kind.PAYLOAD: MERGE_FUNCTIONS,
    Kind.MERGER: MERGE_FUNCTIONS,
    Kind.LOCK_PROVIDER: LOCK_PROVIDERS,
    Kind.SYNC_TOOL: SYNC_TOOLS,
    Kind.COMMIT_CALLBACK: COMMIT_CALLBACKS,
    Kind.VALIDATOR: VALIDATORS,
}


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for registry in REGISTRIES.values():
        monkeypatch.setattr(registry, "registered", {})
    list_entry_points.cache_clear()
    yield
    list_entry_points.cache_clear()


def newest(old: Any, new: Any) -> Any:
    return new


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_decorator_and_a_registry(kind: Kind) -> None:
    registry = REGISTRIES[kind]
    decorate = getattr(penstock, kind.value)
    assert decorate("newest")(newest) is newest
    assert registry.find("newest") == Registered("newest", kind, newest)
    assert registry.find_registration(newest) == registry.find("newest")
    assert registry.list_names() == ("newest",)
    assert registry.find("oldest") is None
    assert not registry.has("oldest")


def test_kinds_of_one_registry_share_their_names_and_kinds_of_two_do_not() -> None:
    penstock.payload("newest")(newest)
    penstock.merger("newest")(newest)
    assert MERGE_FUNCTIONS.find("newest") == Registered("newest", Kind.MERGER, newest)
    penstock.commit_callback("newest")(newest)
    assert not VALIDATORS.has("newest")
    with pytest.raises(OptionError, match=r"no validator is registered as 'newest'.*@penstock.validator\('newest'\)"):
        find_validator("newest")


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("name", ["", "a b", "a,b", "1st", "penstock.aggregate", "org.apache.hudi.common.model.MyPayload"])
def test_an_invalid_name_is_refused(name: str, kind: Kind) -> None:
    with pytest.raises(OptionError, match=f"cannot name a {kind.noun}"):
        getattr(penstock, kind.value)(name)


def test_a_registry_takes_over_functions_of_its_own_kinds_alone() -> None:
    registry = Registry(Kind.PAYLOAD)
    registry.add(Registered("first", Kind.PAYLOAD, newest))
    registry.add(Registered("second", Kind.VALIDATOR, newest))
    assert registry.list_names() == ("first",)


def test_options_take_registered_names_and_say_how_to_register_others() -> None:
    with pytest.raises(OptionError, match=r"newest.*register your own.*@penstock.payload"):
        read_options({PAYLOAD_CLASS.key: "newest"})
    penstock.payload("newest")(newest)
    assert read_options({PAYLOAD_CLASS.key: "newest"})[PAYLOAD_CLASS] == "newest"
    assert read_options({PAYLOAD_CLASS.key: "EventTimeAvroPayload"})[PAYLOAD_CLASS].startswith("org.apache.hudi.")


def test_an_installed_package_declares_functions_that_are_imported_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_rules.py").write_text("def newest(old, new):\n    return new\n")
    installed = tmp_path / "their_rules-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: their-rules\nVersion: 1.0\n")
    groups = "".join(f"[{kind.group}]\nof_{kind.value} = their_rules:newest\n" for kind in Kind)
    (installed / "entry_points.txt").write_text(f"{groups}[penstock.payloads]\nbroken = no.such.module:f\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert MERGE_FUNCTIONS.has("broken")
    for kind, registry in REGISTRIES.items():
        assert registry.has(f"of_{kind.value}")
        assert f"of_{kind.value}" in registry.list_names()
        assert "their_rules" not in sys.modules
        found = registry.find(f"of_{kind.value}")
        assert found is not None
        assert (found.kind, found.function.__module__) == (kind, "their_rules")
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
        from penstock.registered.registry import Kind, Registered
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

"""A process counts as ended only if that is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock import process
from penstock.process import has_ended, this_process


def test_a_process_with_the_same_number_and_another_start_is_another_one() -> None:
    assert not has_ended(this_process())
    assert has_ended(replace(this_process(), started="1"))


def test_a_process_whose_start_cannot_be_read_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    here = this_process()
    assert here.started
    monkeypatch.setattr(process, "_start_of", lambda pid: "")
    assert not has_ended(here)
    assert not has_ended(replace(here, started=""))


def test_a_process_that_did_not_tell_its_start_has_not_ended_while_its_number_is_in_use() -> None:
    assert not has_ended(replace(this_process(), started=""))

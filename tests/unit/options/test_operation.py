"""The two spellings of an operation: in options and reports, and in commit files."""

from __future__ import annotations

import pytest

from penstock.options import OPERATION, Operation, read_options


@pytest.mark.parametrize("operation", Operation)
def test_commit_files_spell_an_operation_in_capital_letters(operation: Operation) -> None:
    assert operation.stored == operation.name


@pytest.mark.parametrize("operation", Operation)
def test_a_message_spells_an_operation_as_options_do(operation: Operation) -> None:
    assert f"{operation}" == str(operation) == operation.value == operation.name.lower()


def test_an_option_in_any_case_is_an_operation() -> None:
    assert read_options({OPERATION.key: "Insert_Overwrite"})[OPERATION] is Operation.INSERT_OVERWRITE
    assert read_options({})[OPERATION] is Operation.UPSERT

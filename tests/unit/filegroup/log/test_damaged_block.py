"""What is lost with damaged blocks, in numbers."""

from __future__ import annotations

from penstock.filegroup.log.damaged_block import DamagedBlock, count_lost_records, describe_loss


def block(path: str, offset: int = 0, *, instant: str | None = "02", records: int | None = 5) -> DamagedBlock:
    return DamagedBlock(path, offset, 1000, instant, records, f"{path}, byte {offset}")


def test_blocks_of_one_write_in_one_file_are_counted_once() -> None:
    assert count_lost_records([block("a"), block("a", 1000)]) == 5
    assert count_lost_records([block("a"), block("b"), block("a", 1000, instant="03", records=2)]) == 12
    assert count_lost_records([]) == 0


def test_one_unknown_write_makes_the_number_of_rows_unknown() -> None:
    assert count_lost_records([block("a"), block("b", instant=None, records=None)]) is None


def test_the_loss_is_described_in_numbers() -> None:
    assert describe_loss([block("a")]) == "1 damaged log block (1,000 bytes) in 1 log file, with up to 5 changed or deleted rows"
    assert describe_loss([block("a", records=None), block("b")]) == (
        "2 damaged log blocks (2,000 bytes) in 2 log files, with an unknown number of changed or deleted rows"
    )

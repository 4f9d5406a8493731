"""Claims: the order in which the transactions of concurrent writers take effect.

A transaction is a commit, a new plan of a table service, or a rollback. Its claim is the file `<number>` in
`.hoodie/.penstock/claims`. The claim of a commit holds the completed file of the commit. A transaction is a loop:

1. Find the last claim. If it is of a commit without a completed file, create that file: its process died, or is only slow.
2. Load the timeline and check the transaction against it.
3. Create the next claim. `write_new` lets one process create it; every other begins again with step 1.
4. Create the completed file, and mark the claim as done.

The claim decides. No transaction comes between check and claim, because it would have taken the same number. A process that stops
after step 2, for however long, finds the number taken. A process that stops after step 3 has committed: the next transaction
creates its completed file, byte for byte. This needs no lock and no clock. Writers of real Hudi know nothing of claims; a lock
that both hold keeps them apart (`commit/locks`).

Old claims are deleted, the oldest first, but never the last one. So a number may be free again for a process that stopped long
ago. Therefore a claim names the one before it, and a new claim counts only if it is the last one or the next one names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from penstock import clock
from penstock.errors import AlreadyExists, CommitUnknown, CorruptFile, StorageError
from penstock.storage import Storage, join
from penstock.table.state import TableState
from penstock.timeline.instant import Action, Instant, State, parse_instant
from penstock.timeline.store import FOLDER, load_timeline
from penstock.timeline.timeline import Timeline

CLAIMS = ".penstock/claims"
UNDONE = ".penstock/undone"
#: The beginning of the name of a mark that a plan is withdrawn.
_PLAN_MARK = "plan-"
#: Claims that are kept when old ones are deleted, and how many there are before that.
_KEPT = 32
_MOST = 96
#: A claim that is done has no content and is not larger. Commit metadata is larger.
_DONE_BYTES = 160
#: The width of the number in a file name, so that names sort as numbers do.
_DIGITS = 12


@dataclass(frozen=True)
class Completed:
    """The completed file of a commit: its instant and its content."""

    instant: Instant
    content: bytes


@dataclass(frozen=True)
class Claim:
    """The file of one transaction, which fixes its place in the order of all transactions of a table.

    A transaction is a commit, a new plan of a table service, or a rollback.
    """

    #: Different for every claim.
    claim_id: str
    #: The id of the claim before this one; empty for the first.
    previous: str
    #: The name of the completed file that the transaction creates; empty if it creates none, or has created it.
    file_name: str = ""
    #: The content of the completed file.
    content: bytes = b""

    def encode(self) -> bytes:
        """Return the content of the claim's file: one line of JSON, then the content of the completed file."""
        head = {"file": self.file_name, "id": self.claim_id, "previous": self.previous}
        return json.dumps(head).encode() + b"\n" + self.content

    @classmethod
    def decode(cls, data: bytes, path: str) -> Claim:
        """Parse the content of the claim's file at `path`. Raises CorruptFile."""
        line, newline, content = data.partition(b"\n")
        try:
            head = json.loads(line)
            if newline:
                return cls(head["id"], head["previous"], head["file"], content)
        except (ValueError, KeyError, TypeError):
            pass
        raise CorruptFile(f"{path} is not a claim of a transaction")


def run_transaction(table: TableState, check: Callable[[Timeline], Completed | None]) -> None:
    """Run a transaction: check it, take the next place in the order of all transactions of the table, create its completed file.

    A transaction takes its place by creating a file with the next number, its claim.

    Args:
        check: is called with the timeline on which all earlier transactions have taken effect. It returns the completed file to
            create; None if the transaction creates none. It may be called several times. An error that it raises ends the
            transaction, and nothing was changed.

    Raises:
        CommitUnknown: the storage failed while the claim was created, so that the claim may or may not exist. Or this process was
            stopped for so long that its commit may have been completed by another process, and rolled back or archived since.
    """
    storage = table.storage
    folder = join(table.base_path, FOLDER, CLAIMS)
    claim_id = clock.new_uuid()
    own: Instant | None = None
    is_unsure = False
    while True:
        try:
            numbers, before = _find_last_claim(storage, folder)
            timeline = _finish_transaction(table, before)
        except (StorageError, CorruptFile) as e:
            if own is not None and is_unsure:
                raise CommitUnknown(
                    f"the storage failed ({e}) before it was clear whether {own.file_name} of {table.base_path} is committed. "
                    "Table.history() shows whether it is; if not, run the write again"
                ) from e
            raise
        if own is not None and own.time in timeline.completed_times:
            return  # this process was stopped after its claim, and others went on
        if own is not None and is_unsure and own.time not in timeline.pending_times:
            raise CommitUnknown(describe_gone(table, own.file_name))
        is_unsure = False  # if the claim had been part of the order, the commit would be completed
        completed = check(timeline)
        own = completed.instant if completed is not None else None
        last = numbers[-1] if numbers else 0
        claim = Claim(claim_id, before.claim_id if before else "")
        done = claim
        if completed is not None:
            claim = replace(claim, file_name=completed.instant.file_name, content=completed.content)
        taken = _create_claim(storage, folder, last + 1, claim)
        if taken is not Taken.OURS:
            is_unsure = taken is Taken.UNSURE
            continue
        if completed is not None:
            _create_own_completed_file(table, claim)
        with suppress(StorageError):  # the transaction is done; the next one finds its completed file
            if completed is not None:
                storage.replace(_path(folder, last + 1), done.encode())
            _delete_old_claims(storage, folder, numbers)
        return


def _create_own_completed_file(table: TableState, claim: Claim) -> None:
    """Create the completed file of the commit whose claim (file of a transaction) this process has just created.

    Raises:
        CommitUnknown: the storage failed. The commit stands all the same, because of its claim, and the next transaction creates
            the file. Or the commit was rolled back or archived, or the table replaced, before this process went on.
    """
    try:
        is_there = _create_completed_file(table, claim)
    except StorageError as e:
        raise CommitUnknown(
            f"{claim.file_name} of {table.base_path} is committed, but its file could not be created ({e}). The next write "
            "creates it. Do not run this write again"
        ) from e
    if not is_there:
        raise CommitUnknown(describe_gone(table, claim.file_name))


def describe_gone(table: TableState, file_name: str) -> str:
    """Return the error message about a commit whose instant has left the timeline while this process was publishing it.

    Args:
        file_name: the name of the completed file.
    """
    return (
        f"this process was stopped while it published {file_name} of {table.base_path}, and the instant is gone: the commit may "
        "have been completed by another process and rolled back or archived since, or the table was replaced. Table.history() "
        "shows what became of it"
    )


def mark_undone(table: TableState, time: str, *, takes_plan: bool = False) -> str:
    """Create a mark: an empty file which records that the write or plan at instant `time` is about to be undone. Return its path.

    A rollback creates a mark, then checks in a transaction that the write is not committed. A writer looks for marks in the
    transaction that publishes its commit. So either the writer finds the mark, or the rollback finds the commit. Each rollback
    has a mark of its own, which it deletes if it fails: the mark of another rollback stays.

    Args:
        takes_plan: whether the plan of a table service is withdrawn, in contrast to a write or a run that is rolled back.
    """
    path = join(_marks_folder(table, time), f"{_PLAN_MARK if takes_plan else ''}{clock.new_uuid()}")
    table.storage.replace(path, b"")
    return path


def is_marked_undone(table: TableState, time: str) -> bool:
    """Whether a rollback of the write at instant `time`, or the withdrawal of a plan at this time, has begun."""
    return bool(table.storage.list(_marks_folder(table, time)))


def is_plan_marked(table: TableState, time: str) -> bool:
    """Whether a process has begun to withdraw the plan at instant `time`."""
    return any(file.name.startswith(_PLAN_MARK) for file in table.storage.list(_marks_folder(table, time)))


def delete_undone_marks(table: TableState, time: str) -> None:
    """Delete the marks which record that the write at instant `time` is about to be undone. Called at the end of its rollback.

    The requested file of the write must be deleted before. Then a process that still runs the write misses that file, and stops.
    """
    table.storage.delete_files([file.path for file in table.storage.list(_marks_folder(table, time))])


def _marks_folder(table: TableState, time: str) -> str:
    """Return the folder of the marks: files which record that the write or plan at instant `time` is about to be undone."""
    return join(table.base_path, FOLDER, UNDONE, time)


def has_claims(table: TableState) -> bool:
    """Whether the table has claims, the files with which writers with optimistic concurrency control order their transactions."""
    return bool(_list_numbers(table.storage, join(table.base_path, FOLDER, CLAIMS)))


def find_unfinished(table: TableState) -> set[str]:
    """Return the instant times of commits whose own process may still be about to create the completed file.

    Such a commit has a claim, the file of its transaction, which its process has not yet marked as done. Another process may have
    created the completed file already.
    """
    storage = table.storage
    times: set[str] = set()
    for file in storage.list(join(table.base_path, FOLDER, CLAIMS)):
        if file.size_bytes <= _DONE_BYTES:
            continue
        try:
            claimed = parse_instant(Claim.decode(storage.read(file.path), file.path).file_name)
        except FileNotFoundError:
            continue  # old, and deleted just now
        if claimed is not None:
            times.add(claimed.time)
    return times


def _finish_transaction(table: TableState, claim: Claim | None) -> Timeline:
    """Return the timeline on which the last transaction has taken effect.

    If the last transaction is a commit without a completed file, because its process died or is slow, create that file first.

    Args:
        claim: the last claim (file of a transaction); None if there is none.
    """
    timeline = load_timeline(table.storage, table.base_path)
    instant = parse_instant(claim.file_name) if claim is not None else None
    # If the instant is not pending, the commit is completed, and perhaps archived or rolled back since.
    if claim is None or instant is None or instant.time not in timeline.pending_times:
        return timeline
    _create_completed_file(table, claim)
    return load_timeline(table.storage, table.base_path)


def _list_numbers(storage: Storage, folder: str) -> list[int]:
    """Return the numbers of all claims, ascending. A claim is the file of a transaction; its number is the place in the order."""
    return sorted(int(file.name) for file in storage.list(folder) if file.name.isdecimal())


def _find_last_claim(storage: Storage, folder: str) -> tuple[list[int], Claim | None]:
    """Return the numbers of all claims, ascending, and the claim with the greatest number; None if there is no claim.

    A claim is the file of a transaction. Its number is the transaction's place in the order of all transactions.
    """
    while True:
        numbers = _list_numbers(storage, folder)
        # If the claim is gone, this process was stopped for so long that it was deleted: list again.
        with suppress(FileNotFoundError):
            return numbers, _read_claim(storage, folder, numbers[-1]) if numbers else None


def _path(folder: str, number: int) -> str:
    """Return the path of the claim (file of a transaction) with this number.

    Args:
        folder: the folder of all claims of the table.
    """
    return join(folder, f"{number:0{_DIGITS}d}")


def _read_claim(storage: Storage, folder: str, number: int) -> Claim:
    """Read the claim (file of a transaction) with this number.

    Raises:
        FileNotFoundError: there is no claim with this number.
        CorruptFile: the file is not a claim.
    """
    path = _path(folder, number)
    return Claim.decode(storage.read(path), path)


class Taken(Enum):
    """Which process has created the claim (file of a transaction) with a certain number: this one or another one."""

    OURS = "this process"
    OTHERS = "another process"
    #: The claim was created, but is not part of the order any more. If it ever was, others have completed the transaction.
    UNSURE = "not known"


def _create_claim(storage: Storage, folder: str, number: int, claim: Claim) -> Taken:
    """Try to create the claim (file of a transaction) with this number. Return which process has created it.

    Return `UNSURE`, and delete the new claim, if an old claim of this number was deleted long ago: the new one is not part of the
    order.

    Raises:
        CommitUnknown: the storage failed, so the claim may or may not exist.
    """
    path = _path(folder, number)
    try:
        storage.write_new(path, claim.encode())
    except AlreadyExists:
        # The storage may have repeated a call whose answer was lost.
        if _read_id(storage, folder, number) != claim.claim_id:
            return Taken.OTHERS
    except StorageError as e:
        raise CommitUnknown(
            f"a claim of a transaction could not be created ({e}). Look at {path}: if it holds {claim.claim_id!r}, "
            f"{claim.file_name} is done; otherwise run the write again"
        ) from e
    try:
        if _counts(storage, folder, number, claim):
            return Taken.OURS
        storage.delete(path)
    except StorageError as e:
        raise CommitUnknown(f"the storage failed after a claim was created ({e}). Table.history() shows what became of it") from e
    return Taken.UNSURE


def _counts(storage: Storage, folder: str, number: int, claim: Claim) -> bool:
    """Whether a new claim (file of a transaction) is part of the order: it is the last one, or the next one names its id.

    It is not if an old claim of the same number was deleted long ago. Then the next claim names the id of the old one.
    """
    if _list_numbers(storage, folder)[-1] <= number:
        return True
    try:
        return _read_claim(storage, folder, number + 1).previous == claim.claim_id
    except FileNotFoundError:
        return False


def _read_id(storage: Storage, folder: str, number: int) -> str | None:
    """Return the id of the claim (file of a transaction) with this number; None if there is no such claim."""
    try:
        return _read_claim(storage, folder, number).claim_id
    except FileNotFoundError:
        return None


def _create_completed_file(table: TableState, claim: Claim) -> bool:
    """Create the completed file of the commit in a claim (the file of its transaction). Return whether the completed file exists.

    If it existed before, another process created it, with the same content. Return False, and leave no file, if the instant is
    gone: the commit was completed by another process, and rolled back or archived since. Archiving keeps commits whose claim is
    not done, until many others have committed.
    """
    path = join(table.base_path, FOLDER, claim.file_name)
    # This process may have been stopped for so long that the commit was completed by another one, and rolled back since.
    if not has_requested_file(table, claim.file_name):
        return table.storage.stat(path) is not None
    with suppress(AlreadyExists):
        table.storage.write_new(path, claim.content)
        if not has_requested_file(table, claim.file_name):
            table.storage.delete(path)
            return False
    return True


def has_requested_file(table: TableState, completed_name: str) -> bool:
    """Whether the instant with this completed file still has its requested file."""
    completed = parse_instant(completed_name)
    if completed is None:
        return True
    for action in Action:
        if action.family is completed.action.family:
            requested = Instant(completed.time, action, State.REQUESTED)
            if table.storage.stat(join(table.base_path, FOLDER, requested.file_name)) is not None:
                return True
    return False


def _delete_old_claims(storage: Storage, folder: str, numbers: list[int]) -> None:
    """Delete the oldest claims (files of transactions) if there are more than `_MOST`. The newest `_KEPT` always stay.

    Args:
        numbers: the numbers of the claims, ascending.
    """
    if len(numbers) <= _MOST:
        return
    for number in numbers[:-_KEPT]:
        storage.delete(_path(folder, number))

"""Runs processes as threads of which one at a time goes on, in the order of a schedule, and explores schedules.

Before each call of the storage a process asks the schedule who goes on. A schedule is a list of deviations from the plain order, in
which each process runs to its end: at step n process p goes on, or the process dies. `explore` plays every schedule with a number of
deviations up to a bound, and leaves out those that reach a state from which it has gone on before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from penstock.errors import StorageError

#: A deviation: at this step the process of this number goes on; or, if negative, something happens to the one that was about to.
Deviation = tuple[int, int]
DIES = -1
#: Its call fails: nothing was changed, or it was and the answer is lost.
FAILS = -2
LOSES_ANSWER = -3
_WAIT_S = 60


class Died(BaseException):
    """The process is dead: whatever it does next, it dies again. A BaseException, so that no clean-up catches it."""


def _no_answer() -> StorageError:
    return StorageError(5, "the storage does not answer")


@dataclass
class Step:
    """A step of a run: who was about to go on, with which call, who else could, and what the state was."""

    process: int
    call: str
    others: tuple[int, ...]
    state: int


@dataclass
class Run:
    """One run of all processes by a schedule."""

    deviations: Sequence[Deviation]
    #: Returns a number that stands for all that is stored.
    stored: Callable[[], int]
    steps: list[Step] = field(default_factory=list)
    errors: dict[int, BaseException] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._plan = dict(self.deviations)
        self._numbers: dict[int, int] = {}  # by id of thread
        self._turns: list[threading.Semaphore] = []
        self._live: set[int] = set()
        self._memory: list[int] = []  # what each process has seen, as one number
        self._unanswered: set[int | None] = set()
        self._done = threading.Semaphore(0)

    def play(self, processes: Sequence[Callable[[], None]]) -> None:
        """Run the processes to their ends."""
        self._turns = [threading.Semaphore(0) for _ in processes]
        self._live = set(range(len(processes)))
        self._memory = [0] * len(processes)
        threads = [threading.Thread(target=self._run, args=pair, daemon=True) for pair in enumerate(processes)]
        for thread in threads:
            thread.start()
        self._turns[0].release()
        if not self._done.acquire(timeout=_WAIT_S):
            raise AssertionError(f"the processes {self._live} do not end: {self.steps[-5:]}")

    def _run(self, number: int, process: Callable[[], None]) -> None:
        self._turns[number].acquire()
        self._numbers[threading.get_ident()] = number
        try:
            process()
        except BaseException as e:  # the caller looks at it
            self.errors[number] = e
        del self._numbers[threading.get_ident()]  # the next thread may get the same id
        self._live.discard(number)
        if self._live:
            self._turns[min(self._live)].release()
        else:
            self._done.release()

    def number(self) -> int | None:
        """Return the number of the process that calls; None for the test itself."""
        return self._numbers.get(threading.get_ident())

    def before_call(self, call: str, *, is_step: bool) -> None:
        """Let the process go on that the schedule names. Raise Died if that is the end of this one."""
        number = self.number()
        if number is None:
            return  # the test itself looks at the storage
        if number in self.dead:
            raise Died
        if not is_step:
            return
        others = tuple(sorted(self._live - {number}))
        at = len(self.steps)
        state = hash((number, call, self.stored(), tuple(self._memory), tuple(sorted(self._live))))
        self.steps.append(Step(number, call, others, state))
        choice = self._plan.get(at)
        if choice == DIES:
            self.dead.add(number)
            raise Died
        if choice == FAILS:
            raise _no_answer()
        if choice == LOSES_ANSWER:
            self._unanswered.add(number)
        if choice in others:
            self._turns[choice].release()
            self._turns[number].acquire()

    def after_change(self) -> None:
        """Raise an error if the answer to the call of the calling process is lost."""
        number = self.number()
        if number in self._unanswered:
            self._unanswered.discard(number)
            raise _no_answer()

    def after_call(self, call: str, result: object) -> None:
        """Add the result of a call to what the process has seen."""
        number = self.number()
        if number is not None:
            self._memory[number] = hash((self._memory[number], call, result))


def play_at_random(
    play: Callable[[Sequence[Deviation]], Run], *, count: int, switches: int, deaths: int = 0, failures: int = 0, seed: int = 1
) -> Iterator[Run]:
    """Play schedules with many switches, deaths and failing calls at random steps, and yield their runs.

    An error names the deviations of its schedule. They break the promise again.

    Args:
        play: plays one schedule.
        switches: how many switches a schedule has at most.
        failures: how many calls of the storage fail.
    """
    random = Random(seed)
    run = play(())
    processes, steps = 1 + len(run.steps[0].others), len(run.steps)
    for _ in range(count):
        what = [DIES] * deaths + [random.choice((FAILS, LOSES_ANSWER)) for _ in range(failures)]
        what += [random.randrange(processes) for _ in range(random.randint(3, switches))]
        random.shuffle(what)
        at = sorted(random.sample(range(steps), len(what)))
        run = play(list(zip(at, what, strict=True)))
        steps = max(steps, len(run.steps))
        yield run


def explore(play: Callable[[Sequence[Deviation]], Run], *, switches: int, deaths: int = 0, every: int = 1) -> Iterator[Run]:
    """Play schedules and yield their runs: all with up to so many switches and deaths.

    Args:
        play: plays one schedule.
        every: 1 to play every schedule; otherwise one in so many of those with the most deviations.
    """
    seen: set[tuple[int, int, int]] = set()
    waiting: list[tuple[tuple[Deviation, ...], int, int]] = [((), switches, deaths)]
    number = 0
    while waiting:
        deviations, switches_left, deaths_left = waiting.pop()
        number += 1
        if every > 1 and not switches_left + deaths_left and number % every:
            continue
        run = play(deviations)
        yield run
        first = deviations[-1][0] + 1 if deviations else 0
        for at in range(first, len(run.steps)):
            step = run.steps[at]
            key = (step.state, switches_left, deaths_left)
            if key in seen:
                continue  # the rest of this run goes on as another one did
            seen.add(key)
            if switches_left:
                for other in step.others:
                    waiting.append(((*deviations, (at, other)), switches_left - 1, deaths_left))
            if deaths_left:
                waiting.append(((*deviations, (at, DIES)), switches_left, deaths_left - 1))
